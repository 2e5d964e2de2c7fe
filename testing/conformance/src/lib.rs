//! What every device must do, written once.
//!
//! A device is put under test in a file of a few lines, and gets a `#[test]` for each promise of the
//! contract in [`streampool_device`]:
//!
//! ```ignore
//! streampool_conformance::suite!(|| -> Result<Arc<dyn Device>, String> { open_the_device() });
//! ```
//!
//! The closure is called for each test, and the device it returns is nobody else's meanwhile: memory is
//! counted exactly. An error says why there is no such device here; the tests are then skipped and print it.
//! A [`Subject`] returned instead brings along a second device and a way to make the first one fail.
//!
//! Results are compared with a reference that computes element by element in `f64` and `i64`, random inputs
//! are seeded, and nothing depends on how fast the device is.
//!
//! # Promises
//!
//! | promise | tests |
//! |---|---|
//! | **Device**: its properties do not change; its name tells it from others | `memory::properties_are_sensible` |
//! | All methods may be called from any thread at the same time | `memory::sixteen_threads_allocate_and_free` `threads::everything_at_once` |
//! | Whoever calls gets through, however many others append without a pause | `threads::newcomers_come_through_while_others_launch` |
//! | No call of one queue waits for a lock that another holds while it works | `handlers::later_commands_do_not_wait_for_handlers` `threads::thirty_one_threads_multiply` |
//! | It calls nobody back while it holds a lock | `handlers::a_handler_is_called_once_in_its_place` `trace::intervals_are_ordered_and_named` |
//! | `supports`, and `Unsupported` with the op's name | `unsupported::the_simplest_ops_are_supported` `unsupported::unsupported_ops_are_refused_by_name` `unsupported::unsupported_ops_are_refused_while_capturing` `unsupported::every_supported_op_is_captured` |
//! | `allocate`: as long as asked, aligned, disjoint, in both spaces; zero bytes is an error | `memory::allocations_are_aligned` `memory::allocations_are_disjoint` `memory::both_spaces_hold_data` `memory::zero_bytes_are_refused` |
//! | `allocate` fails with `OutOfMemory` and the figures, and then nothing changed | `memory::out_of_memory_has_the_figures` |
//! | `memory_use` counts what is allocated and not yet freed | `memory::memory_use_counts_allocations` |
//! | `quirks` and `caches` are listed | `memory::quirks_and_caches_are_listed` |
//! | `set_trace`: the interval of every op from now on, ordered, on the host's clock | `trace::intervals_are_ordered_and_named` `trace::traces_are_exchanged_under_load` |
//! | Ops inside one replay share its tick | `trace::replayed_ops_share_a_tick` |
//! | `set_trace(None)` stops it | `trace::nothing_is_sent_while_it_is_off` |
//! | **Queue**: commands execute in the order they were appended | `queue::commands_execute_in_order` `queue::copies_keep_their_place_among_ops` `programs::replays_keep_their_place` |
//! | The first command has tick 1, each gets the next | `queue::each_command_gets_the_next_tick` |
//! | Work starts at a flush, or when somebody queries or waits | `queue::a_flush_starts_the_work` `queue::polling_starts_unflushed_work` `queue::polling_starts_work_left_for_a_waiter` `events::asking_starts_the_work_before_it` `threads::a_ring_of_queues` |
//! | `flush` hands over everything, returns the last tick, never blocks | `queue::a_flush_never_blocks` |
//! | `encode` validates; a refused op leaves nothing behind | `errors::wrong_ops_are_refused_by_argument` `queue::a_refused_op_leaves_nothing_behind` |
//! | `upload` takes its bytes before it returns, goes to the start, fails if they do not fit | `queue::uploads_take_their_bytes_at_once` `errors::wrong_copies_are_refused` |
//! | `download` fails if the sizes differ | `errors::wrong_copies_are_refused` |
//! | A queue belongs to who holds it, on any thread | `queue::a_queue_moves_between_threads` |
//! | Dropping a queue does not wait; what was appended still executes, handlers are called, progress stays | `queue::a_dropped_queue_still_executes` `queue::many_dropped_queues_finish` `faults::a_dropped_queue_reports_its_fault` `progress::it_outlives_its_queue` `programs::a_capturing_queue_may_be_dropped` |
//! | **Progress**: `completed` counts what is over, never goes back, never blocks | `progress::it_counts_what_is_over` `progress::it_never_goes_back` `progress::polling_does_not_wait` |
//! | Reading it makes what came before visible | `progress::it_makes_results_visible` |
//! | `wait` ends when its tick is over, or with `Timeout` at the deadline, on any number of threads | `progress::a_wait_ends_at_its_tick` `progress::a_wait_times_out` `progress::many_threads_wait_at_once` |
//! | **Event**: unrecorded, pending, complete; `query` never blocks | `events::status_follows_the_recording` |
//! | `record` and `wait` order queues, in any pattern | `events::queues_are_ordered_by_events` `events::a_queue_may_wait_for_itself` `events::one_recording_releases_everyone` `threads::chains_in_both_directions` `threads::one_writer_and_many_readers` |
//! | An earlier recording no longer counts, but who waits for it still gets it | `events::old_waiters_get_the_old_recording` `events::host_waiters_get_their_recording` `events::stale_signals_do_not_complete_a_new_recording` `events::ten_thousand_recordings_of_few_events` |
//! | Waiting for what was never recorded fails at once with `NotRecorded` | `events::waiting_unrecorded_is_an_error` |
//! | `Event::wait` ends with `Timeout` at the deadline | `events::a_wait_times_out` |
//! | `elapsed_since`: the time between two recordings, after waiting for these two and nothing else | `events::elapsed_time_is_between_recordings` `events::elapsed_time_waits_for_nothing_else` |
//! | It fails without timing, without a recording, and if the start is the later | `events::elapsed_time_needs_timing_and_recordings` `events::elapsed_time_is_between_recordings` |
//! | Events and programs of another device are `Foreign` | `events::foreign_events_are_refused` `programs::foreign_programs_are_refused` |
//! | **Handlers** are called once, when everything before them is complete | `handlers::a_handler_is_called_once_in_its_place` `handlers::handlers_of_many_queues` |
//! | Those of one queue run one at a time and in order | `handlers::handlers_run_in_order_one_at_a_time` |
//! | They may use the device freely, their own queue included | `handlers::a_handler_may_use_its_own_queue` `handlers::a_handler_may_use_the_device_freely` `handlers::a_handler_may_drop_its_own_queue` `handlers::a_handler_may_hold_its_device` |
//! | Later commands do not wait for them, nor does a panic in one hurt | `handlers::later_commands_do_not_wait_for_handlers` `handlers::a_panicking_handler_hurts_nobody` |
//! | **Capture**: `encode` appends to the program and returns the last real tick | `programs::captured_ops_run_at_replay` `programs::an_empty_program_replays` |
//! | Every other appending method fails with `Capturing`; ending none, with `NotCapturing` | `programs::capturing_refuses_everything_else` `programs::ending_no_capture_is_refused` |
//! | An op that does nothing has its place in a program | `programs::what_does_nothing_keeps_its_place` |
//! | Other queues are not affected | `programs::a_capture_does_not_affect_others` |
//! | **Program**: replays on any queue, any number of times, also at the same time | `programs::captured_ops_run_at_replay` `programs::eight_threads_replay_one_program` `programs::a_program_may_be_dropped_under_way` |
//! | Spans within `slots[i]` are bound anew at each replay | `programs::slots_are_bound_at_replay` `programs::slots_keep_the_places_within_them` `programs::one_span_may_fill_two_reading_slots` |
//! | Slots are as many, as long and aligned as captured | `programs::wrong_slots_are_refused` |
//! | Constants may be kept in any form as long as a program with them lives, and no longer | `programs::constants_hold_as_long_as_their_programs` |
//! | **Faults** reach who waits, with queue, tick and op; what was before succeeded, what follows is not executed | `faults::a_fault_reaches_who_waits` `faults::every_waiter_gets_the_fault` |
//! | Events recorded after it complete with it | `faults::events_complete_with_the_fault` |
//! | Handlers are called with it | `faults::handlers_are_called_with_the_fault` |
//! | Appending fails with `Poisoned` until `recover` | `faults::a_poisoned_queue_refuses_appends` `faults::a_queue_recovers` |
//! | `recover` waits for what was appended; without poison it does nothing | `faults::a_queue_recovers` `faults::recovering_without_poison_does_nothing` |
//! | Other queues go on, and each has its own fault | `faults::other_queues_go_on` `faults::each_queue_gets_its_own_fault` |
//! | A wait for a faulty recording is released and does not poison | `faults::a_waiting_queue_is_released_unharmed` |
//! | A replay is one command, and the op of its faults is `Replay` | `faults::a_replay_fails_as_one_command` |
//! | **Copy** casts (and `bool` is 0 or 1) between any strides | `ops_move::copies_cast_by_the_rules` `ops_move::copies_go_between_any_layouts` `ops_move::copies_of_block_lengths` `ops_move::copies_transpose` |
//! | **Fill** and **Iota** | `ops_move::fills_write_every_element` `ops_move::iotas_count_row_major` |
//! | **Map**: each function, by element type | `ops_map::float_functions` `ops_map::float_functions_far_out` `ops_map::float_pairs` `ops_map::integer_functions` `ops_map::truth_functions` `ops_map::nan_and_infinity` `ops_map::casts_inside_expressions` |
//! | Fused, with several types and outputs, inputs broadcasting or turned, in place, over several groups of operands | `ops_fused::fused_expressions` `ops_fused::mixed_types_in_one_expression` `ops_fused::inputs_broadcast` `ops_fused::maps_transpose` `ops_fused::maps_of_several_groups` `ops_fused::maps_in_place` `ops_fused::maps_of_block_lengths` |
//! | **Reduce**: each kind over any axes; NaN wins; the first of equals | `ops_reduce::reductions_over_any_axes` `ops_reduce::reductions_of_block_lengths` `ops_reduce::nothing_reduces_to_the_neutral_element` `ops_reduce::nan_wins` `ops_reduce::the_first_of_equals_is_found` `ops_reduce::long_sums_stay_accurate` |
//! | **Softmax** and its logarithm along any axis, in place | `ops_norm::softmax_along_any_axis` `ops_norm::softmax_of_extremes` `ops_norm::softmax_of_block_lengths` |
//! | **Norm**: layer and RMS from any axis, in place | `ops_norm::norms_from_any_axis` `ops_norm::norms_of_block_lengths` `ops_norm::norms_of_extremes` |
//! | **MatMul**: every type and layout, batches that broadcast, bias, alpha, activation | `ops_matmul::products_of_block_sizes` `ops_matmul::empty_products` `ops_matmul::products_of_any_layout` `ops_matmul::epilogues` `ops_matmul::integer_products_with_bias` `ops_matmul::nan_stays_in_its_row` |
//! | **Conv**: any window over one to three dimensions, groups, bias and activation, and the transpose | `ops_conv::convolutions_of_any_window` `ops_conv::convolutions_of_block_sizes` `ops_conv::pointwise_convolutions` `ops_conv::depthwise_convolutions` `ops_conv::convolutions_end_in_every_activation` `ops_conv::convolutions_of_bytes` `ops_conv::empty_convolutions` `ops_conv::nan_stays_in_its_windows` |
//! | **Pool**: the largest and where it is, means, norms | `ops_spatial::the_largest_of_any_window` `ops_spatial::means_and_norms_of_any_window` `ops_spatial::pools_of_block_lengths` `ops_spatial::pools_of_the_whole` |
//! | **Resize**: the nearest, linear, cubic, at any places | `ops_spatial::the_nearest_of_any_place` `ops_spatial::interpolation_at_any_place` `ops_spatial::resizes_of_block_lengths` `ops_spatial::places_that_are_elements_see_no_other` |
//! | **Regions**: at any place, with any number of samples | `ops_regions::regions_of_any_place` `ops_regions::regions_far_larger_than_pictures` |
//! | **Attention**: masks, causal bounds, shared heads, a cap; nothing attended to gives zeros | `ops_attention::attention_of_block_lengths` `ops_attention::attention_of_any_layout` `ops_attention::attention_to_nothing` `ops_attention::attention_at_any_distance` `ops_attention::attention_without_scores` `ops_attention::attention_of_extremes` `ops_attention::attention_of_packed_projections` |
//! | **Rnn**: every cell and direction; lengths, peepholes, states given or left out | `ops_rnn::layers_of_every_cell` `ops_rnn::layers_of_any_layout` `ops_rnn::layers_of_block_lengths` `ops_rnn::layers_of_more_sequences` `ops_rnn::layers_of_nothing` `ops_rnn::nan_stays_in_its_sequence` |
//! | **Random**: the stated bits, by place, in any layout, at once or in parts; the distributions | `ops_random::random_numbers_are_those_of_the_recipe` `ops_random::random_numbers_of_block_lengths` `ops_random::parts_of_a_sequence_are_the_sequence` `ops_random::random_numbers_follow_their_distribution` |
//! | **Linalg**: products of the results are what was given; singular matrices are no fault | `ops_linalg::lu_multiplies_back` `ops_linalg::lu_solves` `ops_linalg::triangles_are_solved` `ops_linalg::cholesky_multiplies_back` `ops_linalg::inverses_multiply_to_one` `ops_linalg::singular_matrices_are_no_fault` |
//! | **Gather** and **Scatter**: by axis, by element, by list; an index out of range is a fault on the host and defined elsewhere | `ops_index::gathers_of_any_layout` `ops_index::gathers_of_rows` `ops_index::scatters_combine` `ops_index::scatters_replace` `ops_index::one_of_several_updates_stays` `ops_index::indices_out_of_range` |
//! | **Scan** along any axis, from either end; **Sort**, stable and with NaN last, and the first few | `ops_order::scans_along_any_axis` `ops_order::scans_of_block_lengths` `ops_order::nan_wins_from_its_place_on` `ops_order::sorts_along_any_axis` `ops_order::sorts_of_block_lengths` `ops_order::order_of_equals_zeros_and_nan` |
//! | **Histogram** and **NonZero** | `ops_tally::histograms_of_any_layout` `ops_tally::the_ends_of_the_range` `ops_tally::histograms_of_nothing` `ops_tally::places_of_any_layout` `ops_tally::places_of_block_lengths` |
//! | **Trees**: every test and leaf, for any rows; numbers beyond the last are the last | `ops_trees::ensembles_of_any_layout` `ops_trees::ensembles_of_block_lengths` `ops_trees::records_that_lead_nowhere` |
//! | The same op gives the same bits, whatever else runs | `threads::results_are_the_same_bits_everywhere` |

#![deny(unsafe_code)]

mod build;
mod case;
mod execute;
mod fixture;
mod lane;
mod num;
mod operand;
mod patience;
mod random;
mod reference;
mod samples;
mod subject;
mod suite;

pub mod cases;
pub mod errors;
pub mod events;
pub mod faults;
pub mod halves;
pub mod handlers;
pub mod hostile;
pub mod memory;
pub mod ops_attention;
pub mod ops_conv;
pub mod ops_fused;
pub mod ops_index;
pub mod ops_linalg;
pub mod ops_map;
pub mod ops_matmul;
pub mod ops_move;
pub mod ops_norm;
pub mod ops_order;
pub mod ops_random;
pub mod ops_reduce;
pub mod ops_regions;
pub mod ops_rnn;
pub mod ops_spatial;
pub mod ops_tally;
pub mod ops_trees;
pub mod packages;
pub mod programs;
pub mod progress;
pub mod queue;
pub mod rng;
pub mod threads;
pub mod trace;
pub mod unsupported;
pub mod witness;

pub use fixture::{Fixture, run};
pub use reference::erf;
pub use subject::{ArmFault, Opened, Subject};
