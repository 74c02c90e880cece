# What is said of each test: the seconds it may take, its labels, and what its environment has besides. `fast` runs under
# the sanitizers and under stress too, `long` only in `make check-long`, where long_* are parts of their own
# (tools/check.sh); `threads` runs under the thread sanitizer.

# The first row fits whose expression is the whole of the name.
macro(tapir_test_row names seconds) # label...
  if(NOT seconds_of AND name MATCHES "^(${names})$")
    set(seconds_of ${seconds})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} LABELS "${ARGN}")
  endif()
endmacro()

# Every row fits.
macro(tapir_test_variable names variable)
  if(name MATCHES "^(${names})$")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "${variable}")
  endif()
endmacro()

function(tapir_test_settings name)
  set(seconds_of "")
  set(unless_sanitized fast)
  if(TAPIR_SANITIZE)
    set(unless_sanitized long)
  endif()

  # random programs
  tapir_test_row("diff_random_long_1"                          10800 long long_diff_1)
  tapir_test_row("diff_random_long_2"                          10800 long long_diff_2)
  tapir_test_row("(random_capture|control_random|standalone_branches)_long" 36000 long long_random)
  tapir_test_row("(control_blocks_c|loop_random)_long"         3600 long long_random)
  tapir_test_row("(monkey|mutator|alloc_steps)_long"           3600 long)
  tapir_test_row("diff_random"                                 900)
  tapir_test_row("validate_.*|random_capture|capture_pure_branch" 600)
  tapir_test_row("random_capture_.*"                           600 fast)
  tapir_test_row("monkey_mode_.*"                              600 fast)
  tapir_test_row("monkey_list"                                 1500 fast)

  # every op
  tapir_test_row("op_(graph|alone)_all"                        7200 long long_ops)
  tapir_test_row("onnx_(nodes|forms|control)_c_all"            1500 long long_ops)
  tapir_test_row("op_(cover|factors|fail|grad|vmap|jvp)"       1500 fast)
  tapir_test_row("op_(graph|alone|numpy|onnx_nodes)"           1500)

  # what runs one thing in several ways
  tapir_test_row("grad_corners"                                600 fast)
  tapir_test_row("grad_corners_alone"                          600)
  tapir_test_row("grad_corners_all"                            1200 long)
  tapir_test_row("capture_in_pure"                             1500 fast)
  tapir_test_row("capture_longjmp|capture_pure_turns"          300 fast)
  tapir_test_row("capture_.*"                                  600 fast)
  tapir_test_row("control_blocks_c"                            1200)
  tapir_test_row("control_(blocks|random|random_found)"        600 fast)
  tapir_test_row("control_compile"                             120 fast)
  tapir_test_row("loop_opencl"                                 900)
  tapir_test_row("loop_nests"                                  300 ${unless_sanitized}) # loop_random is as much for them

  # the interface
  tapir_test_row("api_(threads|crowd|interrupt|team|team_waves)" 300 fast threads)
  tapir_test_row("api_steady|alloc_steps|alloc_command"        300)
  tapir_test_row("api_killed_saves_long"                       900 long)
  tapir_test_row("killed_training_long"                        900 long)
  tapir_test_row("api_(reload|cxx)"                            60 fast)
  tapir_test_row("api_(misuse_list|handles_list|needs_variables|refuses_numbers)" 1500 fast)

  # numbers
  tapir_test_row("numerics_(checker|contraction)"              300 fast numerics)
  tapir_test_row("numerics_(ulp|composites)"                                300 numerics)
  tapir_test_row("numerics_(ulp|composites)_long"                           36000 long numerics)
  tapir_test_row("numerics_bits"                               1200 numerics)
  tapir_test_row("numerics_bits_long"                          2400 long numerics)

  # ONNX, and C files
  tapir_test_row("onnx_hostile"                                600 fast)
  tapir_test_row("onnx_(nodes|nodes_.*|light|models|forms|forms_.*|control|control_.*)" 1500)
  tapir_test_row("onnx_published"                              600)
  tapir_test_row("export_file"                                 300 fast)
  tapir_test_row("export_.*|onnx_runtime"                      900)
  tapir_test_row("standalone_(learn|free)_long"                7200 long)
  tapir_test_row("standalone_options"                          600)
  tapir_test_row("standalone_.*"                               1500)

  # examples
  tapir_test_row("example_(quickstart|train|dynamic_model|misuse)" 120 fast)
  tapir_test_row("example_(recursion|spinn)"                   300 fast)
  tapir_test_row("example_mnist_drawn"                         600 fast)
  # Many calls of what `rnn` has too. Those that wait for the C compiler are not for the sanitizers at all.
  tapir_test_row("example_(branch|loops)_reference"            600 ${unless_sanitized})
  tapir_test_row("example_.*_reference"                        600 fast)
  tapir_test_row("example_.*_auto"                             600 long)
  tapir_test_row("example_(learns_rnn|mnist_real_long)"        1800 long)
  tapir_test_row("example_mnist_real"                          1800)
  tapir_test_row("example_(recursion|spinn)_.*"                300)
  tapir_test_row("example_.*"                                  600)

  # texts, bytes and files
  tapir_test_row("golden_text|pass_files|np[yz]_numpy|fuzz_.*" 120 fast)
  tapir_test_row("golden_stats"                                600)
  tapir_test_row("golden_abi"                                  1500)
  tapir_test_row("house_why"                                   300 fast)
  tapir_test_row("house_.*"                                    1500)

  tapir_test_row(".*"                                          300 fast)

  if(TAPIR_SANITIZE) # each block is an allocation too, and takes longer
    tapir_test_variable("api_alloc_sweep|capture_memory" ALLOC_SWEEP_STEP=31)
  elseif(TAPIR_STRESS) # each n takes a step of its own
    tapir_test_variable("api_alloc_sweep|capture_memory" ALLOC_SWEEP_STEP=7)
  endif()
  tapir_test_variable("validate_.*" TAPIR_VALIDATE=1)
  if(TAPIR_CHECKED)
    tapir_test_variable("diff_random_fast" TAPIR_VALIDATE=1)
  endif()
  tapir_test_variable("loop_opencl" "POCL_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/pocl")
endfunction()
