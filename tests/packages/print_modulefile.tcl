# usage: tclsh print_modulefile.tcl MODULEFILE
#
# Prints the commands that a modulefile gives to Environment Modules or Lmod, one per line. Then
# calls its procedure ModulesHelp, which prints the help on standard error; fails if there is none.
foreach command {conflict prepend-path append-path module-whatis setenv} {
    proc $command {args} "puts \"$command \[join \$args { }\]\""
}
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
ModulesHelp
