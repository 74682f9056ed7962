//! The rows of Tables 3.4 to 3.7: name, what, value in ns, what agreement proves, tolerance in %, source,
//! and the machine. Of Table 3.7 the difference to the same row of Tables 3.4 and 3.5 is claimed, what waking adds: the rest
//! of it is claimed there. V4's rows are those of Table 3.4 again: it never sleeps.

use ebb_report::Claim;

use crate::Cache::{self, *};
use crate::Mechanism::{self, *};

/// Configuration, mechanism, caches of simple cores, cycles to wake.
pub(super) type Row = (&'static str, Mechanism, Cache, f64);

super::rows! { "ns", Row,
    "strong2013.table3.4.cc.v1", "gettid on sim_CC under V1", 4669.0, calibrated, percent(1.0), "Strong 2013, Table 3.4b"
        => ("CC", V1, Small, 0.0);
    "strong2013.table3.4.cc.v2", "gettid on sim_CC under V2", 3247.0, calibrated, percent(1.0), "Strong 2013, Table 3.4b"
        => ("CC", V2, Small, 0.0);
    "strong2013.table3.4.cc.v3", "gettid on sim_CC under V3", 2550.0, calibrated, percent(1.0), "Strong 2013, Table 3.4b"
        => ("CC", V3, Small, 0.0);
    "strong2013.table3.4.cc.v4", "gettid on sim_CC under V4", 1986.0, calibrated, percent(1.0), "Strong 2013, Table 3.4b"
        => ("CC", V4, Small, 0.0);
    "strong2013.table3.4.ss.v1", "gettid on sim_SS under V1", 13229.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("SS", V1, Small, 0.0);
    "strong2013.table3.4.ss.v2", "gettid on sim_SS under V2", 10248.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("SS", V2, Small, 0.0);
    "strong2013.table3.4.ss.v3", "gettid on sim_SS under V3", 7982.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("SS", V3, Small, 0.0);
    "strong2013.table3.4.ss.v4", "gettid on sim_SS under V4", 6770.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("SS", V4, Small, 0.0);
    "strong2013.table3.4.cs.v1", "gettid on sim_CS under V1", 8651.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("CS", V1, Small, 0.0);
    "strong2013.table3.4.cs.v2", "gettid on sim_CS under V2", 6343.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("CS", V2, Small, 0.0);
    "strong2013.table3.4.cs.v3", "gettid on sim_CS under V3", 4696.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("CS", V3, Small, 0.0);
    "strong2013.table3.4.cs.v4", "gettid on sim_CS under V4", 3869.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("CS", V4, Small, 0.0);
    "strong2013.table3.4.c_s.v1", "gettid on sim_Cs under V1", 16735.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("Cs", V1, Small, 0.0);
    "strong2013.table3.4.c_s.v2", "gettid on sim_Cs under V2", 11148.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("Cs", V2, Small, 0.0);
    "strong2013.table3.4.c_s.v3", "gettid on sim_Cs under V3", 8140.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("Cs", V3, Small, 0.0);
    "strong2013.table3.4.c_s.v4", "gettid on sim_Cs under V4", 6781.0, predicted, percent(10.0), "Strong 2013, Table 3.4b"
        => ("Cs", V4, Small, 0.0);
    "strong2013.table3.5.cc.v5", "gettid on sim_CC under V5", 2042.0, calibrated, percent(1.0), "Strong 2013, Table 3.5"
        => ("CC", V5, Small, 0.0);
    "strong2013.table3.5.ss.v5", "gettid on sim_SS under V5", 6689.0, calibrated, percent(1.0), "Strong 2013, Table 3.5"
        => ("SS", V5, Small, 0.0);
    "strong2013.table3.5.cs.v5", "gettid on sim_CS under V5", 4087.0, calibrated, percent(1.0), "Strong 2013, Table 3.5"
        => ("CS", V5, Small, 0.0);
    "strong2013.table3.5.c_s.v5", "gettid on sim_Cs under V5", 7024.0, calibrated, percent(1.0), "Strong 2013, Table 3.5"
        => ("Cs", V5, Small, 0.0);
    "strong2013.table3.6.ss.16k.v5", "gettid on sim_SS under V5, 16 KB", 5692.0, calibrated, percent(1.0), "Strong 2013, Table 3.6"
        => ("SS", V5, Double, 0.0);
    "strong2013.table3.6.ss.16k2way.v5", "gettid on sim_SS under V5, 16 KB two-way", 3787.0, calibrated, percent(1.0), "Strong 2013, Table 3.6"
        => ("SS", V5, TwoWay, 0.0);
    "strong2013.table3.6.cs.16k.v5", "gettid on sim_CS under V5, 16 KB", 3665.0, predicted, percent(10.0), "Strong 2013, Table 3.6"
        => ("CS", V5, Double, 0.0);
    "strong2013.table3.6.cs.16k2way.v5", "gettid on sim_CS under V5, 16 KB two-way", 2706.0, predicted, percent(10.0), "Strong 2013, Table 3.6"
        => ("CS", V5, TwoWay, 0.0);
    "strong2013.table3.6.c_s.16k.v5", "gettid on sim_Cs under V5, 16 KB", 6515.0, predicted, percent(10.0), "Strong 2013, Table 3.6"
        => ("Cs", V5, Double, 0.0);
    "strong2013.table3.6.c_s.16k2way.v5", "gettid on sim_Cs under V5, 16 KB two-way", 5515.0, predicted, percent(10.0), "Strong 2013, Table 3.6"
        => ("Cs", V5, TwoWay, 0.0);
    "strong2013.table3.7.cc.1000.v1", "added to gettid on sim_CC under V1 by 1000 cycles to wake", 5216.0 - 4669.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CC", V1, Small, 1000.0);
    "strong2013.table3.7.cc.1000.v2", "added to gettid on sim_CC under V2 by 1000 cycles to wake", 3914.0 - 3247.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CC", V2, Small, 1000.0);
    "strong2013.table3.7.cc.1000.v3", "added to gettid on sim_CC under V3 by 1000 cycles to wake", 3224.0 - 2550.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CC", V3, Small, 1000.0);
    "strong2013.table3.7.cc.1000.v5", "added to gettid on sim_CC under V5 by 1000 cycles to wake", 2059.0 - 2042.0, calibrated, within(20.4), "Strong 2013, Table 3.7"
        => ("CC", V5, Small, 1000.0);
    "strong2013.table3.7.ss.1000.v1", "added to gettid on sim_SS under V1 by 1000 cycles to wake", 13977.0 - 13229.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("SS", V1, Small, 1000.0);
    "strong2013.table3.7.ss.1000.v2", "added to gettid on sim_SS under V2 by 1000 cycles to wake", 10916.0 - 10248.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("SS", V2, Small, 1000.0);
    "strong2013.table3.7.ss.1000.v3", "added to gettid on sim_SS under V3 by 1000 cycles to wake", 8630.0 - 7982.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("SS", V3, Small, 1000.0);
    "strong2013.table3.7.ss.1000.v5", "added to gettid on sim_SS under V5 by 1000 cycles to wake", 6690.0 - 6689.0, implied, within(66.9), "Strong 2013, Table 3.7"
        => ("SS", V5, Small, 1000.0);
    "strong2013.table3.7.cs.1000.v1", "added to gettid on sim_CS under V1 by 1000 cycles to wake", 9376.0 - 8651.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CS", V1, Small, 1000.0);
    "strong2013.table3.7.cs.1000.v2", "added to gettid on sim_CS under V2 by 1000 cycles to wake", 6847.0 - 6343.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CS", V2, Small, 1000.0);
    "strong2013.table3.7.cs.1000.v3", "added to gettid on sim_CS under V3 by 1000 cycles to wake", 5393.0 - 4696.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("CS", V3, Small, 1000.0);
    "strong2013.table3.7.cs.1000.v5", "added to gettid on sim_CS under V5 by 1000 cycles to wake", 4081.0 - 4087.0, calibrated, within(40.9), "Strong 2013, Table 3.7"
        => ("CS", V5, Small, 1000.0);
    "strong2013.table3.7.c_s.250.v1", "added to gettid on sim_Cs under V1 by 250 cycles to wake", 16891.0 - 16735.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V1, Small, 250.0);
    "strong2013.table3.7.c_s.250.v2", "added to gettid on sim_Cs under V2 by 250 cycles to wake", 11480.0 - 11148.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V2, Small, 250.0);
    "strong2013.table3.7.c_s.250.v3", "added to gettid on sim_Cs under V3 by 250 cycles to wake", 8555.0 - 8140.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V3, Small, 250.0);
    "strong2013.table3.7.c_s.250.v5", "added to gettid on sim_Cs under V5 by 250 cycles to wake", 7930.0 - 7024.0, predicted, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V5, Small, 250.0);
    "strong2013.table3.7.c_s.1000.v1", "added to gettid on sim_Cs under V1 by 1000 cycles to wake", 16514.0 - 16735.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V1, Small, 1000.0);
    "strong2013.table3.7.c_s.1000.v2", "added to gettid on sim_Cs under V2 by 1000 cycles to wake", 12835.0 - 11148.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V2, Small, 1000.0);
    "strong2013.table3.7.c_s.1000.v3", "added to gettid on sim_Cs under V3 by 1000 cycles to wake", 9822.0 - 8140.0, implied, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V3, Small, 1000.0);
    "strong2013.table3.7.c_s.1000.v5", "added to gettid on sim_Cs under V5 by 1000 cycles to wake", 9503.0 - 7024.0, predicted, percent(10.0), "Strong 2013, Table 3.7"
        => ("Cs", V5, Small, 1000.0);
}
