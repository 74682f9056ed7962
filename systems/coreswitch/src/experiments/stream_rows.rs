//! The rows of Tables 3.14 and 3.15: KB in 167 ms.
//!
//! At 1 Gbit/s the wire sets the pace of Table 3.14 wherever the cores do not set that of 10 Gbit/s: one number, to which
//! the model's wire is fitted, and otherwise the rows of 10 Gbit/s again, which have no second claim. In Table 3.15 the
//! network's other end sets the pace of every configuration with fast cores, in the print within 10 % of one number; to
//! that one the model is fitted, and all 19 rows are it. Slow system cores differ. The rows of Table 3.15 at 1 Gbit/s
//! are left out: the network is idle in them. Bound, `sim_Cs` of Table 3.14 is fitted too. Under V5 `sim_Cc` of Table 3.14 and `sim_Cs` of Table 3.15 are fitted, which
//! decides V1 to V4 there. Caches of 16 KB change nothing on `sim_CS` with interrupts bound.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;

super::tables! { "KB",
    "strong2013.table3.14.10g.", "TCPstream on sim_", ", 10 Gbit/s", "Strong 2013, Table 3.14", ("tcpstream", Small, 1) {
        "c" "C" unmodified fitted 47639.0;
        "cc" "CC" bound 65049.0, v1 47158.0, v2 47823.0, v3 48378.0, v4 48536.0, v5 48031.0;
        "ss" "SS" bound 19162.0, v1 14334.0, v2 14404.0, v3 13909.0, v4 13920.0, v5 13958.0;
        "clc" "Cc" bound 41563.0, v1 decided 13468.0, v2 decided 13680.0, v3 decided 13728.0, v4 decided 13778.0, v5 fitted 13746.0;
        "cs" "CS" bound 60718.0, v1 14421.0, v2 14484.0, v3 13951.0, v4 14002.0, v5 14014.0;
        "cls" "Cs" bound fitted 23103.0, v1 7105.0, v2 7139.0, v3 6987.0, v4 6987.0, v5 7021.0;
    }
    "strong2013.table3.14.10g.16k.", "TCPstream on sim_", ", 10 Gbit/s, 16 KB", "Strong 2013, Table 3.14", ("tcpstream", Double, 1) {
        "cs" "CS" v1 17357.0, v2 17700.0, v3 17766.0, v4 17827.0, v5 18046.0;
        "cls" "Cs" bound 26547.0, v1 7836.0, v2 7953.0, v3 7965.0, v4 8002.0, v5 8039.0;
    }
    "strong2013.table3.14.1g.", "TCPstream on sim_", ", 1 Gbit/s", "Strong 2013, Table 3.14", ("tcpstream-1g", Small, 1) {
        "cc" "CC" bound fitted 21185.0;
    }
    "strong2013.table3.15.10g.", "TCPmaerts on sim_", ", 10 Gbit/s", "Strong 2013, Table 3.15", ("tcpmaerts", Small, 1) {
        "cc" "CC" bound fitted 18966.0;
        "cls" "Cs" bound 13847.0, v1 decided 11631.0, v2 decided 11829.0, v3 decided 11902.0, v4 decided 11902.0, v5 fitted 11902.0;
    }
}
