//! What other tests show, by their names, and which verbs a fault cannot meet.

/// A test elsewhere. Its name is the sentence that the document has.
pub(crate) struct Elsewhere {
    pub(crate) fault: &'static str,
    /// The verbs, or the parts that all verbs share.
    pub(crate) verbs: &'static str,
    pub(crate) file: &'static str,
    pub(crate) test: &'static str,
}

const fn shown(
    fault: &'static str,
    verbs: &'static str,
    file: &'static str,
    test: &'static str,
) -> Elsewhere {
    Elsewhere { fault, verbs, file, test }
}

const DISK: &str = "disk full";
const KILLED: &str = "killed";
const DENIED: &str = "denied by a security module";
const SUSPENDED: &str = "suspended, or stopped by a signal";
const CLOSED: &str = "stdin, stdout or stderr closed";
const PEER: &str = "peer gone";

pub(crate) const ELSEWHERE: &[Elsewhere] = &[
    shown(
        DISK,
        "capture",
        "quaver/tests/capture_live/accounts.rs",
        "a_full_disk_holds_as_many_packets_as_are_told",
    ),
    shown(
        DISK,
        "capture",
        "instruments/capture/pcapng/src/tests.rs",
        "wherever_the_disk_is_full_each_packet_is_in_the_file_or_told_as_unwritten",
    ),
    shown(DISK, "sync", "quaver/tests/sync_verb.rs", "a_full_disk_takes_nothing_from_the_program"),
    shown(
        DISK,
        "analyze, report, export, scrub",
        "quaver/tests/faults/main.rs",
        "at_each_write_a_full_disk_ends_readers_and_spoils_no_run",
    ),
    shown(
        DISK,
        "watch",
        "quaver/tests/watch_live/disk.rs",
        "a_full_disk_costs_its_incident_and_no_later_one",
    ),
    shown(
        KILLED,
        "analyze, report, scrub",
        "quaver/tests/faults/main.rs",
        "killed_at_each_write_readers_spoil_no_run",
    ),
    shown(
        KILLED,
        "chase",
        "quaver/tests/verbs_runs.rs",
        "a_killed_run_is_readable_and_says_that_it_was_cut_short",
    ),
    shown(KILLED, "chase, serve", "quaver/tests/chase_far.rs", "a_chase_that_is_killed_stops_the_source"),
    shown(
        KILLED,
        "capture",
        "quaver/tests/capture_live/veth.rs",
        "a_killed_capture_leaves_nothing_but_a_readable_file",
    ),
    shown(KILLED, "capture", "quaver/tests/compare/left.rs", "a_killed_comparison_keeps_its_finished_starts"),
    shown(
        KILLED,
        "tune",
        "instruments/tune/tests/tune_killed.rs",
        "kill_9_between_any_two_steps_leaves_nothing_that_revert_does_not_put_back",
    ),
    shown(
        KILLED,
        "cure",
        "quaver/tests/cure.rs",
        "killed_at_any_moment_it_leaves_nothing_that_a_revert_does_not_put_back",
    ),
    shown(KILLED, "study", "quaver/tests/study_verbs.rs", "a_killed_study_goes_on_where_it_was"),
    shown(
        KILLED,
        "sync",
        "quaver/tests/sync_compensate.rs",
        "after_kill_9_the_program_goes_on_and_revert_puts_all_back",
    ),
    shown(
        KILLED,
        "sim",
        "quaver/tests/sim_sweep/ends.rs",
        "a_sweep_that_was_killed_goes_on_and_repeats_no_point_that_was_done",
    ),
    shown(
        KILLED,
        "watch",
        "quaver/tests/watch_live/main.rs",
        "glitches_become_incidents_with_their_causes_and_quiet_and_kills_become_none",
    ),
    shown(
        KILLED,
        "watch",
        "instruments/watch/src/serve/mod.rs",
        "a_socket_that_a_killed_watch_left_is_replaced_and_one_in_use_is_not",
    ),
    shown(KILLED, "all runs", "core/store/tests/recovery.rs", "a_conversion_that_was_killed_starts_again"),
    shown(
        "terminal closed",
        "probe, chase, noise, sync, capture, serve, study",
        "quaver/tests/hangup.rs",
        "a_closed_terminal_ends_what_runs_on_it",
    ),
    shown("terminal closed", "top", "quaver/tests/top_live.rs", "a_terminal_that_is_closed_ends_it"),
    shown(
        "clock stepped",
        "probe, jitlat",
        "quaver/tests/path_clocks.rs",
        "a_step_of_the_senders_clock_is_found_where_it_was_made",
    ),
    shown(
        "clock stepped",
        "all runs",
        "core/store/src/timeline.rs",
        "stamps_around_a_step_of_the_wall_clock",
    ),
    shown(
        "clock stepped",
        "capture",
        "core/clock/src/live/tests/mod.rs",
        "steps_of_realtime_are_marked_with_their_size",
    ),
    shown(
        "clock stepped",
        "chase, noise, capture",
        "quaver/tests/lab_faults.rs",
        "a_step_of_the_clock_is_named_with_its_size_and_lateness_has_none_of_it",
    ),
    shown(
        SUSPENDED,
        "all runs",
        "core/instrument/src/recording.rs",
        "a_machine_that_was_suspended_is_told_of_with_its_length",
    ),
    shown(SUSPENDED, "capture", "core/clock/src/live/tests/mod.rs", "suspend_is_marked"),
    shown(
        SUSPENDED,
        "chase, noise, sink",
        "quaver/tests/suspended.rs",
        "a_stop_by_a_signal_is_told_with_its_length_and_none_where_none_was",
    ),
    shown(
        "CPU off and on",
        "chase, noise, sink, source",
        "core/instrument/src/cpu_watch.rs",
        "a_needed_cpu_that_goes_is_named_with_its_owner",
    ),
    shown(
        "CPU off and on",
        "tune, cure, study",
        "core/host/src/settings/journal/tests/vanished.rs",
        "a_cpu_that_is_offline_is_waited_for",
    ),
    shown(
        "CPU off and on",
        "chase, noise, capture",
        "quaver/tests/lab_faults.rs",
        "a_processor_that_goes_and_comes_back_ends_what_needs_it_and_nothing_else",
    ),
    shown(
        "interface down, removed or renamed",
        "capture",
        "quaver/tests/capture_live/accounts.rs",
        "a_link_that_goes_down_once_is_told_once",
    ),
    shown(
        "interface down, removed or renamed",
        "capture",
        "quaver/tests/capture_live/ends.rs",
        "an_interface_that_vanishes_ends_it_and_the_file_is_whole",
    ),
    shown(
        "interface down, removed or renamed",
        "capture",
        "quaver/tests/capture_live/ends.rs",
        "of_two_interfaces_the_one_that_is_left_is_captured_on",
    ),
    shown(
        "interface down, removed or renamed",
        "chase, sink",
        "quaver/tests/faults/links.rs",
        "a_stream_whose_link_goes_is_kept_and_said_to_have_stopped",
    ),
    shown(
        "interface down, removed or renamed",
        "probe, serve",
        "quaver/tests/faults/links.rs",
        "a_probe_whose_link_goes_keeps_what_it_had_and_a_new_name_is_nothing_to_it",
    ),
    shown(
        "interface down, removed or renamed",
        "capture",
        "quaver/tests/faults/links.rs",
        "a_capture_of_an_interface_that_is_renamed_goes_on",
    ),
    shown(
        "interface down, removed or renamed",
        "watch",
        "quaver/tests/watch_live/links.rs",
        "a_link_that_is_down_for_a_while_is_an_incident_with_the_packets_that_are_missing",
    ),
    shown(
        "interface down, removed or renamed",
        "watch",
        "quaver/tests/watch_live/links.rs",
        "another_name_of_the_interface_is_nothing_to_a_watch_and_its_end_ends_the_stream_alone",
    ),
    shown(
        "interface down, removed or renamed",
        "tune",
        "core/host/src/settings/journal/tests/vanished.rs",
        "an_interface_that_is_gone_took_its_settings_along",
    ),
    shown(
        "interface down, removed or renamed",
        "tune",
        "core/host/src/settings/journal/tests/vanished.rs",
        "another_object_with_the_same_name_is_not_touched",
    ),
    shown(
        "namespace gone",
        "tune, cure, study",
        "core/host/src/settings/journal/tests/vanished.rs",
        "a_setting_of_another_namespace_is_reached_or_known_to_be_gone",
    ),
    shown(
        PEER,
        "probe",
        "instruments/path/record/src/tests/broken.rs",
        "a_server_that_vanishes_leaves_the_client_what_it_had",
    ),
    shown(
        PEER,
        "serve",
        "instruments/path/record/src/tests/broken.rs",
        "a_client_that_vanishes_frees_its_place",
    ),
    shown(
        PEER,
        "chase",
        "instruments/path/record/src/tests/source.rs",
        "a_server_that_ends_says_so_and_the_client_keeps_what_came",
    ),
    shown(
        PEER,
        "watch",
        "quaver/tests/watch_live/receivers.rs",
        "a_receiver_is_found_again_after_each_of_five_restarts_and_nothing_is_left_of_it",
    ),
    shown(
        "ring overflow",
        "capture",
        "quaver/tests/capture_live/veth.rs",
        "what_a_full_ring_drops_is_told_to_the_packet",
    ),
    shown(
        "ring overflow",
        "chase, noise (tracefs)",
        "core/host/tests/tracefs_live.rs",
        "a_small_ring_overflows_and_says_so",
    ),
    shown(
        "ring overflow",
        "chase, noise, sync, watch (BPF)",
        "core/host/src/bpf/tests.rs",
        "what_memory_cannot_hold_is_counted",
    ),
    shown(
        "tracefs in use by another",
        "noise",
        "quaver/tests/faults/main.rs",
        "another_programs_trace_is_left_as_it_is",
    ),
    shown(
        "no privilege",
        "chase, noise, doctor",
        "quaver/tests/tiers.rs",
        "each_set_of_rights_has_the_tier_that_doctor_promises",
    ),
    shown(
        "user namespace",
        "chase, noise, doctor",
        "quaver/tests/tiers.rs",
        "each_set_of_rights_has_the_tier_that_doctor_promises",
    ),
    shown(
        "container",
        "all verbs",
        "quaver/tests/packages.rs",
        "a_container_has_what_its_verb_needs_and_no_more",
    ),
    shown(DENIED, "serve", "quaver/tests/faults/confined.rs", "a_server_is_confined_and_serves"),
    shown(
        DENIED,
        "watch",
        "quaver/tests/faults/confined.rs",
        "a_watch_keeps_the_rights_to_trace_and_its_answering_threads_none",
    ),
    shown(
        DENIED,
        "serve, analyze",
        "quaver/tests/faults/confined.rs",
        "where_the_kernel_confines_nobody_verbs_work_and_a_server_says_so",
    ),
    shown(
        DENIED,
        "compare, scrub, migrate, runs, chase, noise, sync, sink",
        "quaver/tests/faults/confined.rs",
        "whoever_reads_what_others_wrote_has_files_and_no_further_right",
    ),
    shown(
        DENIED,
        "probe, jitlat",
        "quaver/tests/faults/confined.rs",
        "whoever_has_a_peer_keeps_what_sends_and_stores_and_no_further_right",
    ),
    shown(
        DENIED,
        "chase, source, sink, capture",
        "quaver/tests/faults/confined.rs",
        "a_thread_that_sends_or_takes_packets_keeps_its_socket_and_no_right",
    ),
    shown(
        DENIED,
        "query",
        "quaver/tests/faults/confined.rs",
        "the_program_that_answers_questions_has_files_alone",
    ),
    shown(CLOSED, "all verbs", "quaver/tests/arguments.rs", "a_full_terminal_ends_no_verb_by_a_panic"),
    shown(
        CLOSED,
        "doctor, completions, man",
        "quaver/tests/cli.rs",
        "a_full_device_behind_standard_output_ends_with_6",
    ),
    shown(
        "1,000 CPUs and 10,000 threads",
        "doctor, and all facts",
        "core/host/src/hazards.rs",
        "a_thousand_cpus_and_ten_thousand_threads_are_read_in_full",
    ),
];

/// Verbs that a fault does not meet, with the reason.
pub(crate) struct Excused {
    pub(crate) fault: &'static str,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) why: &'static str,
}

const READERS: &[&str] =
    &["analyze", "report", "export", "compare", "runs", "query", "scrub", "schema", "completions", "extcap"];
const DISTANT: &[&str] = &["probe", "serve", "jitlat", "sync", "sim", "query", "lab"];
const READS: &str = "they read what is stored, or print";

pub(crate) const EXCUSED: &[Excused] = &[
    Excused {
        fault: DISK,
        verbs: &["completions", "schema", "doctor", "top", "extcap", "source", "serve"],
        why: "they write no file",
    },
    Excused {
        fault: "read-only place",
        verbs: &["completions", "schema", "doctor", "top", "extcap", "source", "serve"],
        why: "they write no file",
    },
    Excused {
        fault: KILLED,
        verbs: &["completions", "schema", "doctor", "top", "extcap", "source", "compare", "query", "runs"],
        why: "they leave nothing, or replace a file at once",
    },
    Excused { fault: "terminal closed", verbs: READERS, why: "they end by themselves" },
    Excused { fault: "clock stepped", verbs: READERS, why: READS },
    Excused { fault: SUSPENDED, verbs: READERS, why: READS },
    Excused { fault: "CPU off and on", verbs: READERS, why: READS },
    Excused { fault: "CPU off and on", verbs: DISTANT, why: "none of their threads has to stay on a CPU" },
    Excused { fault: "interface down, removed or renamed", verbs: READERS, why: READS },
    Excused {
        fault: "interface down, removed or renamed",
        verbs: &["noise", "sync", "sim", "lab", "top", "doctor"],
        why: "they keep no interface",
    },
    Excused { fault: "namespace gone", verbs: READERS, why: READS },
    Excused {
        fault: "namespace gone",
        verbs: &["noise", "sync", "sim", "source", "sink", "probe", "serve", "jitlat", "top"],
        why: "they stay in the namespace they began in, which lives as long",
    },
    Excused { fault: PEER, verbs: READERS, why: READS },
    Excused {
        fault: PEER,
        verbs: &["noise", "sync", "sim", "capture", "doctor", "tune", "cure", "study", "lab", "source"],
        why: "they have no peer, or wait for none",
    },
    Excused { fault: "ring overflow", verbs: READERS, why: READS },
    Excused {
        fault: "ring overflow",
        verbs: &["source", "sink", "probe", "serve", "jitlat", "tune", "top", "doctor", "lab", "sim"],
        why: "they read no ring of the kernel",
    },
    Excused { fault: "tracefs in use by another", verbs: READERS, why: READS },
    Excused {
        fault: "tracefs in use by another",
        verbs: &["source", "sink", "probe", "serve", "jitlat", "top", "capture", "sim"],
        why: "they use no tracefs",
    },
];
