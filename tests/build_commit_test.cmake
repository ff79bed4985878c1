# Checks which commit the build writes into `dlrun --version`, in small source trees below BINARY:
# one without git, one from `git archive`, and a checkout before and after changes.
file(REMOVE_RECURSE ${BINARY})
set(header ${BINARY}/header/build_commit.h)
file(MAKE_DIRECTORY ${BINARY}/header ${BINARY}/plain ${BINARY}/archive/cmake ${BINARY}/checkout)

# Writes the header for a tree, and fails if the header does not have the commit. The description of
# the tree is for the message.
function(expect_commit tree commit description)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${BINARY}/${tree} -DOUTPUT=${header}
    -P ${SOURCE}/cmake/build_commit.cmake COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${header} text)
  if(NOT text MATCHES "kBuildCommit\\[\\] = \"${commit}\";")
    message(FATAL_ERROR
      "${description}: expected the commit '${commit}', but the header is\n${text}")
  endif()
endfunction()

# Runs git in the checkout, without the settings of the user. Sets `output` to the text that git
# prints.
function(git)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
      git -C ${BINARY}/checkout -c user.name=a -c user.email=a@example.org ${ARGN}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "git ${ARGN}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# BINARY can be inside the checkout of dlrun. The commit of that checkout must not appear here.
expect_commit(plain "" "a tree without git")
file(WRITE ${BINARY}/archive/cmake/archive_commit.txt "0123456789abcdef0123456789abcdef01234567\n")
expect_commit(archive "0123456789ab" "a tree from git archive")
file(COPY ${SOURCE}/cmake/archive_commit.txt DESTINATION ${BINARY}/plain/cmake)
# If dlrun's own tree is from `git archive`, the copied file holds a commit.
if(EXISTS ${SOURCE}/.git)
  expect_commit(plain "" "a copy of archive_commit.txt from dlrun's checkout")
endif()

git(init --quiet)
file(WRITE ${BINARY}/checkout/a.txt "one\n")
git(add a.txt)
git(commit --quiet -m one)
git(tag v9)
git(rev-parse --short=12 HEAD)
set(first_commit ${output})
expect_commit(checkout "${first_commit}" "a checkout")
execute_process(COMMAND touch -d 2001-01-01T12:00:00Z ${header} COMMAND_ERROR_IS_FATAL ANY)
set(ENV{GIT_DIR} ${BINARY}/archive) # as in a git hook
expect_commit(checkout "${first_commit}" "a checkout that is built again")
unset(ENV{GIT_DIR})
file(TIMESTAMP ${header} year "%Y" UTC)
if(NOT year EQUAL 2001)
  message(FATAL_ERROR "the header was written again, although the commit is the same")
endif()
file(WRITE ${BINARY}/checkout/a.txt "two\n")
expect_commit(checkout "${first_commit}-dirty" "a checkout with a change")
git(commit --quiet -a -m two)
git(rev-parse --short=12 HEAD)
expect_commit(checkout "${output}" "a checkout with a new commit")
if(output STREQUAL first_commit)
  message(FATAL_ERROR "the test made no second commit")
endif()
file(REMOVE_RECURSE ${BINARY})
