# usage: tclsh print_modulefile.tcl MODULEFILE
#
# Prints the commands that a modulefile gives to Environment Modules or Lmod, one per line.
foreach command {conflict prepend-path append-path module-whatis setenv} {
    proc $command {args} "puts \"$command \[join \$args { }\]\""
}
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
# The help must be a procedure that prints on standard error.
ModulesHelp
