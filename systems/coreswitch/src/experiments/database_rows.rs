//! The rows of Table 3.11: transactions per second, simple cores with 16 KB caches.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;
use crate::Mechanism::*;
use crate::Way;

super::rows! { "tps", Row,
    "strong2013.table3.11.c.unmodified", "ex_tpcb on sim_C, unmodified, 16 KB", 11411.0, calibrated, 3.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "C", Way::Unmodified, Double, 1);
    "strong2013.table3.11.cc.bound", "ex_tpcb on sim_CC, interrupts bound, 16 KB", 12006.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Bound, Double, 1);
    "strong2013.table3.11.cc.v1", "ex_tpcb on sim_CC, V1, 16 KB", 7251.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Switched(V1), Double, 1);
    "strong2013.table3.11.cc.v2", "ex_tpcb on sim_CC, V2, 16 KB", 3291.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Switched(V2), Double, 1);
    "strong2013.table3.11.cc.v3", "ex_tpcb on sim_CC, V3, 16 KB", 3002.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Switched(V3), Double, 1);
    "strong2013.table3.11.cc.v4", "ex_tpcb on sim_CC, V4, 16 KB", 11416.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Switched(V4), Double, 1);
    "strong2013.table3.11.cc.v5", "ex_tpcb on sim_CC, V5, 16 KB", 11631.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CC", Way::Switched(V5), Double, 1);
    "strong2013.table3.11.ss.bound", "ex_tpcb on sim_SS, interrupts bound, 16 KB", 4789.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Bound, Double, 1);
    "strong2013.table3.11.ss.v1", "ex_tpcb on sim_SS, V1, 16 KB", 4307.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Switched(V1), Double, 1);
    "strong2013.table3.11.ss.v2", "ex_tpcb on sim_SS, V2, 16 KB", 4355.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Switched(V2), Double, 1);
    "strong2013.table3.11.ss.v3", "ex_tpcb on sim_SS, V3, 16 KB", 4402.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Switched(V3), Double, 1);
    "strong2013.table3.11.ss.v4", "ex_tpcb on sim_SS, V4, 16 KB", 4413.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Switched(V4), Double, 1);
    "strong2013.table3.11.ss.v5", "ex_tpcb on sim_SS, V5, 16 KB", 4419.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "SS", Way::Switched(V5), Double, 1);
    "strong2013.table3.11.clc.bound", "ex_tpcb on sim_Cc, interrupts bound, 16 KB", 10541.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Bound, Double, 1);
    "strong2013.table3.11.clc.v1", "ex_tpcb on sim_Cc, V1, 16 KB", 7276.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Switched(V1), Double, 1);
    "strong2013.table3.11.clc.v2", "ex_tpcb on sim_Cc, V2, 16 KB", 7419.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Switched(V2), Double, 1);
    "strong2013.table3.11.clc.v3", "ex_tpcb on sim_Cc, V3, 16 KB", 7615.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Switched(V3), Double, 1);
    "strong2013.table3.11.clc.v4", "ex_tpcb on sim_Cc, V4, 16 KB", 7627.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Switched(V4), Double, 1);
    "strong2013.table3.11.clc.v5", "ex_tpcb on sim_Cc, V5, 16 KB", 7746.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cc", Way::Switched(V5), Double, 1);
    "strong2013.table3.11.cs.bound", "ex_tpcb on sim_CS, interrupts bound, 16 KB", 10320.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Bound, Double, 1);
    "strong2013.table3.11.cs.v1", "ex_tpcb on sim_CS, V1, 16 KB", 8556.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Switched(V1), Double, 1);
    "strong2013.table3.11.cs.v2", "ex_tpcb on sim_CS, V2, 16 KB", 8680.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Switched(V2), Double, 1);
    "strong2013.table3.11.cs.v3", "ex_tpcb on sim_CS, V3, 16 KB", 8872.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Switched(V3), Double, 1);
    "strong2013.table3.11.cs.v4", "ex_tpcb on sim_CS, V4, 16 KB", 8857.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Switched(V4), Double, 1);
    "strong2013.table3.11.cs.v5", "ex_tpcb on sim_CS, V5, 16 KB", 8952.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "CS", Way::Switched(V5), Double, 1);
    "strong2013.table3.11.cls.bound", "ex_tpcb on sim_Cs, interrupts bound, 16 KB", 9007.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Bound, Double, 1);
    "strong2013.table3.11.cls.v1", "ex_tpcb on sim_Cs, V1, 16 KB", 5930.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Switched(V1), Double, 1);
    "strong2013.table3.11.cls.v2", "ex_tpcb on sim_Cs, V2, 16 KB", 5900.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Switched(V2), Double, 1);
    "strong2013.table3.11.cls.v3", "ex_tpcb on sim_Cs, V3, 16 KB", 6054.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Switched(V3), Double, 1);
    "strong2013.table3.11.cls.v4", "ex_tpcb on sim_Cs, V4, 16 KB", 6063.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Switched(V4), Double, 1);
    "strong2013.table3.11.cls.v5", "ex_tpcb on sim_Cs, V5, 16 KB", 6298.0, predicted, 10.0, "Strong 2013, Table 3.11"
        => ("ex_tpcb", "Cs", Way::Switched(V5), Double, 1);
}
