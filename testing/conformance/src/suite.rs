//! The list of promises, and the macro that makes a test of each.

/// Tests every promise of the contract on one device, each as a `#[test]` of its own.
///
/// It takes a closure, called once for each test, that returns a device or a [`Subject`](crate::Subject):
/// as a `Result` whose error, or as an `Option` whose `None`, says that there is no such device here. The
/// tests are then skipped, and say so.
#[macro_export]
macro_rules! suite {
    ($open:expr $(,)?) => {
        fn streampool_open() -> ::std::result::Result<$crate::Subject, ::std::string::String> {
            $crate::Opened::opened(($open)())
        }

        $crate::promises! {
            memory {
                properties_are_sensible,
                quirks_and_caches_are_listed,
                allocations_are_aligned,
                allocations_are_disjoint,
                both_spaces_hold_data,
                zero_bytes_are_refused,
                memory_use_counts_allocations,
                out_of_memory_has_the_figures,
                sixteen_threads_allocate_and_free,
            }
            queue {
                each_command_gets_the_next_tick,
                commands_execute_in_order,
                copies_keep_their_place_among_ops,
                uploads_take_their_bytes_at_once,
                a_flush_starts_the_work,
                polling_starts_unflushed_work,
                polling_starts_work_left_for_a_waiter,
                a_flush_never_blocks,
                a_dropped_queue_still_executes,
                many_dropped_queues_finish,
                a_queue_moves_between_threads,
                a_refused_op_leaves_nothing_behind,
            }
            progress {
                it_counts_what_is_over,
                it_never_goes_back,
                it_makes_results_visible,
                polling_does_not_wait,
                a_wait_times_out,
                a_wait_ends_at_its_tick,
                many_threads_wait_at_once,
                it_outlives_its_queue,
            }
            events {
                status_follows_the_recording,
                waiting_unrecorded_is_an_error,
                asking_starts_the_work_before_it,
                a_wait_times_out,
                queues_are_ordered_by_events,
                a_queue_may_wait_for_itself,
                old_waiters_get_the_old_recording,
                host_waiters_get_their_recording,
                stale_signals_do_not_complete_a_new_recording,
                ten_thousand_recordings_of_few_events,
                one_recording_releases_everyone,
                elapsed_time_is_between_recordings,
                elapsed_time_needs_timing_and_recordings,
                elapsed_time_waits_for_nothing_else,
                foreign_events_are_refused,
            }
            handlers {
                a_handler_is_called_once_in_its_place,
                handlers_run_in_order_one_at_a_time,
                later_commands_do_not_wait_for_handlers,
                a_handler_may_use_its_own_queue,
                a_handler_may_use_the_device_freely,
                a_handler_may_drop_its_own_queue,
                a_panicking_handler_hurts_nobody,
                handlers_of_many_queues,
                a_handler_may_hold_its_device,
            }
            programs {
                captured_ops_run_at_replay,
                an_empty_program_replays,
                slots_are_bound_at_replay,
                slots_keep_the_places_within_them,
                one_span_may_fill_two_reading_slots,
                capturing_refuses_everything_else,
                ending_no_capture_is_refused,
                what_does_nothing_keeps_its_place,
                wrong_slots_are_refused,
                foreign_programs_are_refused,
                replays_keep_their_place,
                eight_threads_replay_one_program,
                constants_hold_as_long_as_their_programs,
                a_program_may_be_dropped_under_way,
                a_capture_does_not_affect_others,
                a_capturing_queue_may_be_dropped,
            }
            faults {
                a_fault_reaches_who_waits,
                a_poisoned_queue_refuses_appends,
                events_complete_with_the_fault,
                handlers_are_called_with_the_fault,
                a_dropped_queue_reports_its_fault,
                a_waiting_queue_is_released_unharmed,
                other_queues_go_on,
                a_queue_recovers,
                recovering_without_poison_does_nothing,
                a_replay_fails_as_one_command,
                each_queue_gets_its_own_fault,
                every_waiter_gets_the_fault,
            }
            errors {
                wrong_ops_are_refused_by_argument,
                wrong_copies_are_refused,
            }
            unsupported {
                unsupported_ops_are_refused_by_name,
                unsupported_ops_are_refused_while_capturing,
                every_supported_op_is_captured,
                the_simplest_ops_are_supported,
            }
            trace {
                intervals_are_ordered_and_named,
                replayed_ops_share_a_tick,
                nothing_is_sent_while_it_is_off,
                traces_are_exchanged_under_load,
            }
            threads {
                thirty_one_threads_multiply,
                chains_in_both_directions,
                a_ring_of_queues,
                everything_at_once,
                one_writer_and_many_readers,
                results_are_the_same_bits_everywhere,
                newcomers_come_through_while_others_launch,
            }
            ops_move {
                copies_cast_by_the_rules,
                copies_go_between_any_layouts,
                copies_of_block_lengths,
                copies_transpose,
                fills_write_every_element,
                iotas_count_row_major,
            }
            ops_map {
                float_functions,
                float_functions_far_out,
                nan_and_infinity,
                integer_functions,
                truth_functions,
                float_pairs,
                casts_inside_expressions,
            }
            ops_fused {
                inputs_broadcast,
                maps_transpose,
                maps_of_several_groups,
                fused_expressions,
                mixed_types_in_one_expression,
                maps_in_place,
                maps_of_block_lengths,
            }
            ops_reduce {
                reductions_over_any_axes,
                reductions_of_block_lengths,
                nothing_reduces_to_the_neutral_element,
                nan_wins,
                the_first_of_equals_is_found,
                long_sums_stay_accurate,
            }
            ops_norm {
                softmax_along_any_axis,
                softmax_of_extremes,
                softmax_of_block_lengths,
                norms_from_any_axis,
                norms_of_block_lengths,
                norms_of_extremes,
            }
            ops_random {
                random_numbers_are_those_of_the_recipe,
                random_numbers_of_block_lengths,
                parts_of_a_sequence_are_the_sequence,
                random_numbers_follow_their_distribution,
            }
            ops_linalg {
                lu_multiplies_back,
                lu_solves,
                triangles_are_solved,
                cholesky_multiplies_back,
                inverses_multiply_to_one,
                singular_matrices_are_no_fault,
            }
            ops_index {
                gathers_of_any_layout,
                gathers_of_rows,
                scatters_combine,
                scatters_replace,
                one_of_several_updates_stays,
                indices_out_of_range,
            }
            ops_order {
                scans_along_any_axis,
                scans_of_block_lengths,
                nan_wins_from_its_place_on,
                sorts_along_any_axis,
                sorts_of_block_lengths,
                order_of_equals_zeros_and_nan,
            }
            ops_tally {
                histograms_of_any_layout,
                the_ends_of_the_range,
                histograms_of_nothing,
                places_of_any_layout,
                places_of_block_lengths,
            }
            ops_trees {
                ensembles_of_any_layout,
                ensembles_of_block_lengths,
                records_that_lead_nowhere,
            }
            ops_matmul {
                products_of_block_sizes,
                empty_products,
                products_of_any_layout,
                epilogues,
                integer_products_with_bias,
                nan_stays_in_its_row,
            }
            ops_attention {
                attention_of_block_lengths,
                attention_of_any_layout,
                attention_to_nothing,
                attention_at_any_distance,
                attention_without_scores,
                attention_of_extremes,
                attention_of_packed_projections,
            }
            ops_regions {
                regions_of_any_place,
                regions_far_larger_than_pictures,
            }
            ops_rnn {
                layers_of_every_cell,
                layers_of_any_layout,
                layers_of_block_lengths,
                layers_of_more_sequences,
                layers_of_nothing,
                nan_stays_in_its_sequence,
            }
            ops_conv {
                convolutions_of_any_window,
                convolutions_of_block_sizes,
                pointwise_convolutions,
                depthwise_convolutions,
                convolutions_end_in_every_activation,
                convolutions_of_bytes,
                empty_convolutions,
                nan_stays_in_its_windows,
            }
            ops_spatial {
                the_largest_of_any_window,
                means_and_norms_of_any_window,
                pools_of_block_lengths,
                pools_of_the_whole,
                the_nearest_of_any_place,
                interpolation_at_any_place,
                resizes_of_block_lengths,
                places_that_are_elements_see_no_other,
            }
        }
    };
}

/// Makes a module of each theme and a test of each promise in it.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($($theme:ident { $($promise:ident,)* })*) => {$(
        mod $theme {
            $(
                #[test]
                fn $promise() {
                    $crate::run(super::streampool_open(), $crate::$theme::$promise);
                }
            )*
        }
    )*};
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    const THEMES: &[(&str, &str)] = &[
        ("memory", include_str!("memory.rs")),
        ("queue", include_str!("queue.rs")),
        ("progress", include_str!("progress.rs")),
        ("events", include_str!("events.rs")),
        ("handlers", include_str!("handlers.rs")),
        ("programs", include_str!("programs.rs")),
        ("faults", include_str!("faults.rs")),
        ("errors", include_str!("errors.rs")),
        ("unsupported", include_str!("unsupported.rs")),
        ("trace", include_str!("trace.rs")),
        ("threads", include_str!("threads.rs")),
        ("ops_move", include_str!("ops_move.rs")),
        ("ops_map", include_str!("ops_map.rs")),
        ("ops_fused", include_str!("ops_fused.rs")),
        ("ops_reduce", include_str!("ops_reduce.rs")),
        ("ops_norm", include_str!("ops_norm.rs")),
        ("ops_index", include_str!("ops_index.rs")),
        ("ops_order", include_str!("ops_order.rs")),
        ("ops_tally", include_str!("ops_tally.rs")),
        ("ops_trees", include_str!("ops_trees.rs")),
        ("ops_matmul", include_str!("ops_matmul.rs")),
        ("ops_random", include_str!("ops_random.rs")),
        ("ops_linalg", include_str!("ops_linalg.rs")),
        ("ops_attention", include_str!("ops_attention.rs")),
        ("ops_regions", include_str!("ops_regions.rs")),
        ("ops_rnn", include_str!("ops_rnn.rs")),
        ("ops_conv", include_str!("ops_conv.rs")),
        ("ops_spatial", include_str!("ops_spatial.rs")),
    ];

    /// Every promise that is written, as `theme::name`.
    fn written() -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (theme, text) in THEMES {
            for line in text.lines() {
                let name = line
                    .strip_prefix("pub fn ")
                    .and_then(|rest| rest.strip_suffix("(fixture: &Fixture) {"));
                names.extend(name.map(|name| format!("{theme}::{name}")));
            }
        }
        names
    }

    #[test]
    fn every_promise_that_is_written_is_tested() {
        let mut listed = BTreeSet::new();
        let mut theme = "";
        let list = include_str!("suite.rs").split("$crate::promises! {").nth(1);
        for line in list.expect("the list").lines().skip(1) {
            match line.trim() {
                "}" if theme.is_empty() => break,
                "}" => theme = "",
                line => match line.strip_suffix(" {") {
                    Some(name) => theme = name,
                    None => {
                        let name = line.trim_end_matches(',');
                        assert!(
                            listed.insert(format!("{theme}::{name}")),
                            "{name} is listed twice"
                        );
                    }
                },
            }
        }
        assert_eq!(listed, written());
    }

    #[test]
    fn the_front_page_names_every_promise_and_no_other() {
        let mut named = BTreeSet::new();
        for line in include_str!("lib.rs")
            .lines()
            .filter(|line| line.starts_with("//! |"))
        {
            let tests = line.split('|').nth(2).unwrap_or_default();
            named.extend(tests.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        assert_eq!(named, written());
    }
}
