//! Every key that BookSim 2 knows, with its default and what is done about it here.

/// What a value other than the default means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is translated, or refused where its value is not simulated.
    Read,
    /// Only this value is simulated, with what that means.
    Only(&'static str, &'static str),
    /// BookSim 2 itself does not look at it in what is simulated here.
    Unused,
    /// It changes nothing of what is simulated: the reader says what it does not do.
    Said(&'static str),
}
use Use::{Only, Read, Said, Unused};

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) of: Use,
}

/// The key called `name`.
pub(super) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

const fn key_of(name: &'static str, default: &'static str, of: Use) -> Key {
    Key { name, default, of }
}

const SETTLES: Use = Said("a run has settled when three samples differ by less than 5 %");
const PRINTED: Use = Said("nothing of that is printed");
const WRITTEN: Use = Said("nothing is written there");
const POWER: Use = Said("power comes from energy.router of a scenario, and is not computed");

/// Names and defaults of `booksim_config.cpp`, in its order.
pub(super) const KEYS: &[Key] = &[
    key_of("channel_file", "", Only("", "no file of channels' lengths")),
    key_of("subnets", "1", Only("1", "one network")),
    key_of("topology", "torus", Read),
    key_of("k", "8", Read),
    key_of("n", "2", Read),
    key_of("c", "1", Read),
    key_of("routing_function", "none", Read),
    key_of("use_noc_latency", "1", Read),
    key_of("x", "8", Read),
    key_of("y", "8", Read),
    key_of("xr", "1", Read),
    key_of("yr", "1", Read),
    key_of("link_failures", "0", Only("0", "whole networks")),
    key_of("fail_seed", "0", Unused),
    key_of("in_ports", "5", Unused),
    key_of("out_ports", "5", Unused),
    key_of("router", "iq", Only("iq", "the input-queued router")),
    key_of("output_delay", "0", Only("0", "no delay at outputs")),
    key_of("credit_delay", "0", Read),
    key_of("internal_speedup", "1.0", Read),
    key_of("output_buffer_size", "-1", Only("-1", "no limit to what waits at an output")),
    key_of("noq", "0", Only("0", "no queues by next hop")),
    key_of("speculative", "0", Only("0", "no speculation")),
    key_of("spec_check_elig", "1", Unused),
    key_of("spec_check_cred", "1", Unused),
    key_of("spec_mask_by_reqs", "0", Unused),
    key_of("spec_sw_allocator", "prio", Unused),
    key_of("num_vcs", "16", Read),
    key_of("vc_buf_size", "8", Read),
    key_of("buf_size", "-1", Only("-1", "buffers of vc_buf_size")),
    key_of("buffer_policy", "private", Only("private", "a buffer for every virtual channel")),
    key_of("private_bufs", "-1", Unused),
    key_of("private_buf_size", "1", Unused),
    key_of("private_buf_start_vc", "-1", Unused),
    key_of("private_buf_end_vc", "-1", Unused),
    key_of("max_held_slots", "-1", Unused),
    key_of("feedback_aging_scale", "1", Unused),
    key_of("feedback_offset", "0", Unused),
    key_of("wait_for_tail_credit", "0", Read),
    key_of("vc_busy_when_full", "0", Only("0", "a full channel can be asked for")),
    key_of("vc_prioritize_empty", "0", Only("0", "full and empty channels are alike")),
    key_of("vc_priority_donation", "0", Only("0", "no priorities")),
    key_of("vc_shuffle_requests", "0", Only("0", "requests in the order of channels")),
    key_of("hold_switch_for_packet", "0", Read),
    key_of("input_speedup", "1", Read),
    key_of("output_speedup", "1", Read),
    key_of("routing_delay", "1", Read),
    key_of("vc_alloc_delay", "1", Read),
    key_of("sw_alloc_delay", "1", Read),
    key_of("st_prepare_delay", "0", Only("0", "no stage before the switch")),
    key_of(
        "st_final_delay",
        "1",
        Only("1", "one cycle: BookSim 2 lets all outputs of a switch wait in one line"),
    ),
    key_of("vct", "0", Unused),
    key_of("vc_allocator", "islip", Read),
    key_of("sw_allocator", "islip", Read),
    key_of("arb_type", "round_robin", Only("round_robin", "arbiters that go round")),
    key_of("alloc_iters", "1", Read),
    key_of("classes", "1", Only("1", "one class")),
    key_of("traffic", "uniform", Read),
    key_of("class_priority", "0", Only("0", "no priorities")),
    key_of("perm_seed", "0", Unused),
    key_of("injection_rate", "0.1", Read),
    key_of("injection_rate_uses_flits", "0", Read),
    key_of("packet_size", "1", Read),
    key_of("packet_size_rate", "1", Read),
    key_of("injection_process", "bernoulli", Only("bernoulli", "Bernoulli arrivals")),
    key_of("burst_alpha", "0.5", Unused),
    key_of("burst_beta", "0.5", Unused),
    key_of("burst_r1", "-1.0", Unused),
    key_of("priority", "none", Only("none", "no priorities")),
    key_of("batch_size", "1000", Unused),
    key_of("batch_count", "1", Unused),
    key_of("max_outstanding_requests", "0", Unused),
    key_of("use_read_write", "0", Only("0", "no requests and replies")),
    key_of("write_fraction", "0.5", Unused),
    key_of("read_request_begin_vc", "0", Unused),
    key_of("read_request_end_vc", "5", Unused),
    key_of("write_request_begin_vc", "2", Unused),
    key_of("write_request_end_vc", "7", Unused),
    key_of("read_reply_begin_vc", "8", Unused),
    key_of("read_reply_end_vc", "13", Unused),
    key_of("write_reply_begin_vc", "10", Unused),
    key_of("write_reply_end_vc", "15", Unused),
    key_of("read_request_subnet", "0", Unused),
    key_of("read_reply_subnet", "0", Unused),
    key_of("write_request_subnet", "0", Unused),
    key_of("write_reply_subnet", "0", Unused),
    key_of("read_request_size", "1", Unused),
    key_of("write_request_size", "1", Unused),
    key_of("read_reply_size", "1", Unused),
    key_of("write_reply_size", "1", Unused),
    key_of("sim_type", "latency", Read),
    key_of("warmup_periods", "3", Read),
    key_of("sample_period", "1000", Read),
    key_of("max_samples", "10", Read),
    key_of("measure_stats", "1", Only("1", "all packets are measured")),
    key_of("pair_stats", "0", Said("output.flows = true gives a table of pairs")),
    key_of("latency_thres", "500.0", Said("no run is given up for its latency")),
    key_of("warmup_thres", "0.05", SETTLES),
    key_of("acc_warmup_thres", "0.05", SETTLES),
    key_of("stopping_thres", "0.05", SETTLES),
    key_of("acc_stopping_thres", "0.05", SETTLES),
    key_of("sim_count", "1", Read),
    key_of(
        "include_queuing",
        "1",
        Said(
            "both are reported: latency_cycles with the wait at the source, network_latency_cycles without",
        ),
    ),
    key_of("seed", "0", Read),
    key_of("print_activity", "0", PRINTED),
    key_of("print_csv_results", "0", PRINTED),
    key_of("deadlock_warn_timeout", "256", Said("a deadlock is found by who waits for whom")),
    key_of("viewer_trace", "0", PRINTED),
    key_of("watch_file", "", PRINTED),
    key_of("watch_flits", "", PRINTED),
    key_of("watch_packets", "", PRINTED),
    key_of("watch_transactions", "", PRINTED),
    key_of("watch_out", "", WRITTEN),
    key_of("stats_out", "", WRITTEN),
    key_of("injected_flits_out", "", WRITTEN),
    key_of("received_flits_out", "", WRITTEN),
    key_of("stored_flits_out", "", WRITTEN),
    key_of("sent_flits_out", "", WRITTEN),
    key_of("outstanding_credits_out", "", WRITTEN),
    key_of("ejected_flits_out", "", WRITTEN),
    key_of("active_packets_out", "", WRITTEN),
    key_of("used_credits_out", "", WRITTEN),
    key_of("free_credits_out", "", WRITTEN),
    key_of("max_credits_out", "", WRITTEN),
    key_of("sent_packets_out", "", WRITTEN),
    key_of("sim_power", "0", POWER),
    key_of("power_output_file", "pwr_tmp", POWER),
    key_of("tech_file", "", POWER),
    key_of("channel_width", "128", POWER),
    key_of("channel_sweep", "0", POWER),
    key_of("network_file", "", Unused),
];
