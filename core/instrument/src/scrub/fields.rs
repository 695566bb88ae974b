//! What a string of a run is, by its place: a closed list. A string at a place that is not listed is private.

use std::collections::BTreeSet;

/// What becomes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A word of Quaver's own, such as the name of a unit: kept.
    Own,
    /// A sentence of Quaver's own, into which names of others were put: they are replaced.
    Sentence,
    /// The name of a thread: kept of the kernel's own threads.
    Thread,
    /// A function of the kernel: kept if the analysis knows it.
    Symbol,
    /// Names of a program's functions and objects in Quaver's own form (`push+0x12 (queue)`): each is replaced.
    Names,
    /// A command line of Quaver: its options stay without their values.
    Command,
    /// Anything else: replaced as a whole.
    Private,
}

/// Places by what stands there: ends of paths, without numbers of lists. `{}` is a key that is a number.
const PLACES: [(Field, &str); 6] = [
    (
        Field::Own,
        "schema verb started tool.name tool.version analysis.tier summary.tier kernel.tier cell.tier causes.source clock.source \
         clock.available tsc_flags clock.state.counter clock.state.clocksource clock.state.leap clocks.end clock_steps.end \
         stamped_by sent_stamped_by received_stamped_by seen_by transport protocol direction ways receive asked.study.lab \
         rank_by rtp.arrival payload.kind path.tests.run summary.tests.run host.cpu.model governors frequency_driver idle_driver \
         idle_governor idle_states.name hypervisor.name fair_server transparent_hugepages hugepage_defrag default_qdisc \
         lockdown call.{} idle_state.{} events_from futex.operations.operation advice.kind incident.cause incident.reasons \
         remedies.id kept not_tried.id patterns.paper.table paper.figures.id paper.figures.figure stages.stage late.source \
         late.part late.place late.certainty waits.class waits.source waits.certainty events.kind_name events.detail_name \
         compare.context_name path.flag_names study-stamps.path_names sync.kind_name sync.outcome_name sync.flag_names \
         sync.detail_name sim-intervals.state parts.part time.part levels.level \
         cure.classes.class cure.recorded.classes.class memory.latency network.kind prefetch.kind core.pipeline hand_overs_by_kind facts.architecture",
    ),
    (
        Field::Sentence,
        "blind cannot cores priority asked.stream asked.trigger notes tier_reason interrupted warnings unexplained.note causes.name late.name waits.name \
         remedy.boot remedy.known remedy.setting rtp.definitions rtp.notes hbrmt.frame hbrmt.frame_rate hbrmt.sample profile \
         codec.name cut_short flow.schedule flows.schedule rolling_flows.schedule pairs.reason tests.reason joined.reason \
         pairs.id joined.id differences.of differences.to differences.what differences.placement points.arm totals.arm loss.arm \
         conversions.of conversions.to kernel.arms.name kernel.arms.refused kernel.between kernel.densities refusals \
         ratios.of ratios.to same.name patterns.name patterns.kernel patterns.user.name user.name user.refused peers.program \
         arms.boot arms.id arms.of arms.words classes.factors controls.arm controls.words cell.arm cell.notes discarded.arm \
         discarded.reason interactions.of paper.figures.beside paths.words paper.figures.reason paper.figures.saw \
         paper.figures.title conclusions paper.notes ranking.arm ranking.words measured not_tried.how not_tried.why \
         outcome void changes mechanism risk withdrawn advice.change evidence contention.replay.reason contention.unnamed \
         kernel.failed kernel.reason uprobes.functions uprobes.refused obstacles broke_off driver not_put_back \
         recovered way barrier host.kernel.release host.kernel.version host.kernel.cmdline irq.{} lacks facts.tool differences.key differences.default differences.value",
    ),
    (Field::Thread, "task.{} causes.threads.name"),
    (Field::Symbol, "symbol.{} stack.{} causes.functions.name"),
    (
        Field::Names,
        "objects.{} callers.{} lines.{} threads.{} without.lines without.symbols origins.{}.site origins.{}.thread origin.site \
         origin.thread call_sites.name objects.name locks.name owner_calls.name owner_functions.name owner_waits.name \
         waiter_functions.name threads.name waits.object waits.call_site",
    ),
    (Field::Command, "asked.command"),
];

/// Starts of names of the kernel's own threads, and of Quaver's.
pub(super) const KERNEL_THREADS: [&str; 29] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "irq/",
    "napi/",
    "ktimers/",
    "rcuc/",
    "rcuo",
    "rcub/",
    "rcu_",
    "kcompactd",
    "khugepaged",
    "ksmd",
    "kdamond",
    "kswapd",
    "watchdog/",
    "cpuhp/",
    "idle_inject/",
    "kipmi",
    "kthreadd",
    "kauditd",
    "khungtaskd",
    "jbd2/",
    "oom_reaper",
    "irqbalance",
    "swapper/",
    "kdevtmpfs",
    "writeback",
    "quaver",
];

/// Functions of every kernel that the analysis names causes by, or that run on every machine.
pub(super) const KERNEL_FUNCTIONS: &str = "\
    tick_nohz_handler tick_sched_timer tick_nohz_highres_handler watchdog_timer_fn sched_cfs_period_timer \
    sched_cfs_slack_timer sched_rt_period_timer dl_task_timer dl_server_timer clocksource_watchdog flush_tlb_func \
    flush_tlb_func_remote do_flush_tlb_all do_kernel_range_flush ipi_mb ipi_sync_core ipi_rseq ipi_sync_rq_state \
    do_sync_core rcu_exp_handler rps_trigger_softirq clocksource_verify_percpu generic_smp_call_function_single_interrupt \
    vmstat_update vmstat_shepherd wb_workfn hrtimer_wakeup process_timeout delayed_work_timer_fn sched_ttwu_pending \
    nohz_csd_func remote_function perf_swevent_hrtimer timerfd_tmrproc it_real_fn posix_timer_fn psi_avgs_work \
    tcp_orphan_update dev_watchdog neigh_managed_work trigger_rx_softirq mix_interrupt_randomness kfree_rcu_monitor \
    bpf_prog_free_deferred bpf_map_free_deferred flush_memcg_stats_dwork schedule __schedule __cond_resched \
    preempt_schedule io_schedule _cond_resched __might_resched raw_irqentry_exit_cond_resched futex_wait_queue \
    schedule_hrtimeout_range_clock do_nanosleep __skb_wait_for_more_packets";

/// Starts of functions that the analysis passes over on a stack: they stay, the rest of such a name is replaced.
pub(super) const PASSED_OVER: [&str; 9] = [
    "bpf_",
    "__bpf",
    "__traceiter",
    "rcu_",
    "raw_irqentry",
    "irqentry_exit_to_user_mode",
    "asm_exc_",
    "finish_task_switch",
    "preempt_schedule",
];

/// The closed list, with the words that typed fields can hold.
pub(super) struct Fields {
    typed: BTreeSet<(&'static str, &'static str)>,
    keys: BTreeSet<&'static str>,
}

impl Fields {
    /// `interface` is the text of `docs/interface.txt`: keys of all documents, and the words that enumerations have.
    pub(super) fn of(interface: &'static str) -> Self {
        let (mut typed, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for (path, holds) in interface.lines().filter_map(|line| line.trim().split_once(": ")) {
            keys.extend(path.split(['.', '[', ']']));
            let last = path.trim_end_matches("[]").rsplit('.').next().unwrap_or_default();
            typed.extend(holds.split(" or ").filter_map(|one| {
                Some((last, one.strip_prefix('"')?.strip_suffix('"')?)).filter(|(last, _)| *last != "{}")
            }));
        }
        Self { typed, keys }
    }

    /// Whether a key is one of a document's own, or the place of one in it (`rtp.streams`).
    pub(super) fn is_key(&self, key: &str) -> bool {
        key.split('.').all(|part| self.keys.contains(part))
    }

    /// What stands at a path. The longest listed end of the path counts.
    pub(super) fn at(&self, path: &str, value: &str) -> Field {
        let ends =
            |end: &str| path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let places =
            PLACES.iter().flat_map(|(field, ends)| ends.split_whitespace().map(move |end| (*field, end)));
        let listed = places.filter(|(_, end)| ends(end)).max_by_key(|(_, end)| end.len());
        match listed {
            Some((field, _)) => field,
            None if self.typed.contains(&(path.rsplit('.').next().unwrap_or(path), value)) => Field::Own,
            None => Field::Private,
        }
    }
}
