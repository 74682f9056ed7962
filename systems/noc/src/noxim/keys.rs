//! Every key that Noxim knows, and what is done about it here.

/// What a value means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is translated, or refused where its value is not simulated.
    Read,
    /// Only this value is simulated, with what that means.
    Only(&'static str, &'static str),
    /// Noxim itself does not look at it in what is simulated here.
    Unused,
    /// It changes nothing of what is simulated: other values than this one are said to have no effect.
    Said(&'static str, &'static str),
}
use Use::{Only, Read, Said, Unused};

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) of: Use,
}

const fn key_of(name: &'static str, of: Use) -> Key {
    Key { name, of }
}

const ENERGY: Use = Said("", "energy comes from energy.flit_hop_pj or energy.router of a scenario");
const PRINTED: Use = Said("false", "nothing of that is printed");
const RADIO: Use = Unused;

/// Keys of `ConfigurationManager.cpp`, in its order.
pub(super) const KEYS: &[Key] = &[
    key_of("verbose_mode", Said("VERBOSE_OFF", "nothing of that is printed")),
    key_of("trace_mode", PRINTED),
    key_of("trace_filename", Unused),
    key_of("topology", Read),
    key_of("mesh_dim_x", Read),
    key_of("mesh_dim_y", Read),
    key_of("n_delta_tiles", Unused),
    key_of("r2r_link_length", ENERGY),
    key_of("r2h_link_length", ENERGY),
    key_of("buffer_depth", Read),
    key_of("flit_size", ENERGY),
    key_of("min_packet_size", Read),
    key_of("max_packet_size", Read),
    key_of("routing_algorithm", Read),
    key_of("routing_table_filename", Unused),
    key_of("selection_strategy", Unused),
    key_of("packet_injection_rate", Read),
    key_of("probability_of_retransmission", Read),
    key_of("traffic_distribution", Read),
    key_of("traffic_table_filename", Unused),
    key_of("traffic_hardcoded_filename", Unused),
    key_of("clock_period_ps", Read),
    key_of("simulation_time", Read),
    key_of("n_virtual_channels", Read),
    key_of("reset_time", Said("0", "a network is empty when it begins")),
    key_of("stats_warm_up_time", Read),
    key_of("detailed", PRINTED),
    key_of("dyad_threshold", Unused),
    key_of("max_volume_to_be_drained", Only("0", "0: runs end by simulation_time")),
    key_of("show_buffer_stats", PRINTED),
    key_of("use_winoc", Only("false", "false: no radio hubs")),
    key_of("winoc_dst_hops", Only("0", "0: no radio hubs")),
    key_of("use_wirxsleep", Only("false", "false: no radio hubs")),
    key_of("Hubs", RADIO),
    key_of("RadioChannels", RADIO),
];
