//! The rows of Table 3.11: transactions per second. Those with a star in the print have 16 KB caches.
//!
//! With its interrupts on the other core `sim_CC` runs at the pace of `sim_C` in the model, which is fitted.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;

super::tables! { "tps",
    "strong2013.table3.11.", "ex_tpcb on sim_", "", "Strong 2013, Table 3.11", ("ex_tpcb", Small, 1) {
        "c" "C" unmodified fitted 11411.0;
        "cc" "CC" bound decided 12006.0, v1 7251.0, v2 3291.0, v3 3002.0, v4 11416.0, v5 11631.0;
        "ss" "SS" bound fitted 4789.0, v1 4307.0, v2 4355.0, v3 4402.0, v4 4413.0, v5 4419.0;
        "clc" "Cc" bound 10541.0, v1 7276.0, v2 7419.0, v3 7615.0, v4 7627.0, v5 7746.0;
        "cs" "CS" bound 10320.0, v1 8556.0, v2 8680.0, v3 8872.0, v4 8857.0, v5 8952.0;
        "cls" "Cs" bound 9007.0, v1 5930.0, v2 5900.0, v3 6054.0, v4 6063.0, v5 6298.0;
    }
    "strong2013.table3.11.16k.", "ex_tpcb on sim_", ", 16 KB", "Strong 2013, Table 3.11", ("ex_tpcb", Double, 1) {
        "cs" "CS" bound 11644.0, v1 9092.0, v2 9233.0, v3 9422.0, v4 9439.0, v5 9619.0;
        "cls" "Cs" bound 9442.0, v1 6240.0, v2 6098.0, v3 6240.0, v4 6258.0, v5 6306.0;
    }
}
