//! The rows of Tables 3.8 and 3.10: KB in 133 ms.
//!
//! Those at 10 Gbit/s are left out: "the NIC speed has no significant effect". So is the unmodified kernel
//! on two cores and more, whose scheduler chooses where everything runs.
//!
//! On four cores the kernels that switch serve with one of the program's cores: `sim_CCCC` is `sim_CC` under every
//! mechanism, though without switching it serves two and a half times as much. The model's number for such a row is
//! that of the row of Table 3.8 with two cores, so that the 14 rows have no claim of their own.
//!
//! With interrupts bound to the system's core the complex core of the program decides, whatever the other core is:
//! one number of the model for six printed ones, of which `sim_CC` has the claim, whatever the caches. Under V5 two
//! configurations are fitted, which decides V3 on `sim_Cs`.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;

super::tables! { "KB",
    "strong2013.table3.8.", "Web on sim_", "", "Strong 2013, Table 3.8", ("web", Small, 2) {
        "c" "C" unmodified fitted 1231.0;
        "cc" "CC" bound 1354.0, v1 706.0, v2 486.0, v3 1300.0, v4 1329.0, v5 1301.0;
        "ss" "SS" bound fitted 615.0, v1 490.0, v2 572.0, v3 578.0, v4 585.0, v5 583.0;
        "clc" "Cc" v1 724.0, v2 780.0, v3 852.0, v4 870.0;
        "cs" "CS" v1 847.0, v2 1163.0, v3 1184.0, v4 1176.0, v5 fitted 1161.0;
        "cls" "Cs" v1 482.0, v2 696.0, v3 decided 690.0, v4 704.0, v5 fitted 688.0;
    }
    "strong2013.table3.8.16k.", "Web on sim_", ", 16 KB", "Strong 2013, Table 3.8", ("web", Double, 2) {
        "cs" "CS" v1 953.0, v2 1192.0, v3 1211.0, v4 1204.0, v5 1196.0;
        "cls" "Cs" v1 574.0, v2 734.0, v3 764.0, v4 762.0, v5 754.0;
    }
    "strong2013.table3.10.", "Web on sim_", "", "Strong 2013, Table 3.10", ("web", Small, 4) {
        "ccss" "CCSS" bound 2739.0;
        "cccc" "CCCC" bound 3431.0;
        "cclsls" "CCss" bound 1704.0;
    }
}
