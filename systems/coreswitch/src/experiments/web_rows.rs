//! The rows of Tables 3.8 and 3.10: KB in 133 ms.
//!
//! Those at 10 Gbit/s are left out: "the NIC speed has no significant effect". So is the unmodified kernel
//! on two cores and more, whose scheduler chooses where everything runs.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;
use crate::Mechanism::*;
use crate::Way;

super::rows! { "KB", Row,
    "strong2013.table3.8.c.unmodified", "Web on sim_C, unmodified", 1231.0, calibrated, 3.0, "Strong 2013, Table 3.8"
        => ("web", "C", Way::Unmodified, Small, 1);
    "strong2013.table3.8.cc.bound", "Web on sim_CC, interrupts bound", 1354.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Bound, Small, 1);
    "strong2013.table3.8.cc.v1", "Web on sim_CC, V1", 706.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Switched(V1), Small, 1);
    "strong2013.table3.8.cc.v2", "Web on sim_CC, V2", 486.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Switched(V2), Small, 1);
    "strong2013.table3.8.cc.v3", "Web on sim_CC, V3", 1300.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Switched(V3), Small, 1);
    "strong2013.table3.8.cc.v4", "Web on sim_CC, V4", 1329.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Switched(V4), Small, 1);
    "strong2013.table3.8.cc.v5", "Web on sim_CC, V5", 1301.0, calibrated, 3.0, "Strong 2013, Table 3.8"
        => ("web", "CC", Way::Switched(V5), Small, 1);
    "strong2013.table3.8.ss.bound", "Web on sim_SS, interrupts bound", 615.0, calibrated, 3.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Bound, Small, 1);
    "strong2013.table3.8.ss.v1", "Web on sim_SS, V1", 490.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Switched(V1), Small, 1);
    "strong2013.table3.8.ss.v2", "Web on sim_SS, V2", 572.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Switched(V2), Small, 1);
    "strong2013.table3.8.ss.v3", "Web on sim_SS, V3", 578.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Switched(V3), Small, 1);
    "strong2013.table3.8.ss.v4", "Web on sim_SS, V4", 585.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Switched(V4), Small, 1);
    "strong2013.table3.8.ss.v5", "Web on sim_SS, V5", 583.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "SS", Way::Switched(V5), Small, 1);
    "strong2013.table3.8.clc.bound", "Web on sim_Cc, interrupts bound", 1393.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cc", Way::Bound, Small, 1);
    "strong2013.table3.8.clc.v1", "Web on sim_Cc, V1", 724.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cc", Way::Switched(V1), Small, 1);
    "strong2013.table3.8.clc.v2", "Web on sim_Cc, V2", 780.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cc", Way::Switched(V2), Small, 1);
    "strong2013.table3.8.clc.v3", "Web on sim_Cc, V3", 852.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cc", Way::Switched(V3), Small, 1);
    "strong2013.table3.8.clc.v4", "Web on sim_Cc, V4", 870.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cc", Way::Switched(V4), Small, 1);
    "strong2013.table3.8.cs.bound", "Web on sim_CS, interrupts bound", 1340.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Bound, Small, 1);
    "strong2013.table3.8.cs.v1", "Web on sim_CS, V1", 847.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V1), Small, 1);
    "strong2013.table3.8.cs.v2", "Web on sim_CS, V2", 1163.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V2), Small, 1);
    "strong2013.table3.8.cs.v3", "Web on sim_CS, V3", 1184.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V3), Small, 1);
    "strong2013.table3.8.cs.v4", "Web on sim_CS, V4", 1176.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V4), Small, 1);
    "strong2013.table3.8.cs.v5", "Web on sim_CS, V5", 1161.0, calibrated, 3.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V5), Small, 1);
    "strong2013.table3.8.cls.bound", "Web on sim_Cs, interrupts bound", 1373.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Bound, Small, 1);
    "strong2013.table3.8.cls.v1", "Web on sim_Cs, V1", 482.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V1), Small, 1);
    "strong2013.table3.8.cls.v2", "Web on sim_Cs, V2", 696.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V2), Small, 1);
    "strong2013.table3.8.cls.v3", "Web on sim_Cs, V3", 690.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V3), Small, 1);
    "strong2013.table3.8.cls.v4", "Web on sim_Cs, V4", 704.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V4), Small, 1);
    "strong2013.table3.8.cls.v5", "Web on sim_Cs, V5", 688.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V5), Small, 1);
    "strong2013.table3.8.16k.cs.bound", "Web on sim_CS, interrupts bound, 16 KB", 1344.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Bound, Double, 1);
    "strong2013.table3.8.16k.cs.v1", "Web on sim_CS, V1, 16 KB", 953.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V1), Double, 1);
    "strong2013.table3.8.16k.cs.v2", "Web on sim_CS, V2, 16 KB", 1192.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V2), Double, 1);
    "strong2013.table3.8.16k.cs.v3", "Web on sim_CS, V3, 16 KB", 1211.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V3), Double, 1);
    "strong2013.table3.8.16k.cs.v4", "Web on sim_CS, V4, 16 KB", 1204.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V4), Double, 1);
    "strong2013.table3.8.16k.cs.v5", "Web on sim_CS, V5, 16 KB", 1196.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "CS", Way::Switched(V5), Double, 1);
    "strong2013.table3.8.16k.cls.bound", "Web on sim_Cs, interrupts bound, 16 KB", 1382.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Bound, Double, 1);
    "strong2013.table3.8.16k.cls.v1", "Web on sim_Cs, V1, 16 KB", 574.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V1), Double, 1);
    "strong2013.table3.8.16k.cls.v2", "Web on sim_Cs, V2, 16 KB", 734.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V2), Double, 1);
    "strong2013.table3.8.16k.cls.v3", "Web on sim_Cs, V3, 16 KB", 764.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V3), Double, 1);
    "strong2013.table3.8.16k.cls.v4", "Web on sim_Cs, V4, 16 KB", 762.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V4), Double, 1);
    "strong2013.table3.8.16k.cls.v5", "Web on sim_Cs, V5, 16 KB", 754.0, predicted, 10.0, "Strong 2013, Table 3.8"
        => ("web", "Cs", Way::Switched(V5), Double, 1);
    "strong2013.table3.10.ccss.bound", "Web on sim_CCSS, interrupts bound", 2739.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Bound, Small, 2);
    "strong2013.table3.10.ccss.v1", "Web on sim_CCSS, V1", 685.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Switched(V1), Small, 2);
    "strong2013.table3.10.ccss.v2", "Web on sim_CCSS, V2", 1187.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Switched(V2), Small, 2);
    "strong2013.table3.10.ccss.v3", "Web on sim_CCSS, V3", 1222.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Switched(V3), Small, 2);
    "strong2013.table3.10.ccss.v4", "Web on sim_CCSS, V4", 1239.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Switched(V4), Small, 2);
    "strong2013.table3.10.ccss.v5", "Web on sim_CCSS, V5", 1227.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCSS", Way::Switched(V5), Small, 2);
    "strong2013.table3.10.cccc.bound", "Web on sim_CCCC, interrupts bound", 3431.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCCC", Way::Bound, Small, 2);
    "strong2013.table3.10.cccc.v1", "Web on sim_CCCC, V1", 1318.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCCC", Way::Switched(V1), Small, 2);
    "strong2013.table3.10.cccc.v2", "Web on sim_CCCC, V2", 1278.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCCC", Way::Switched(V2), Small, 2);
    "strong2013.table3.10.cccc.v3", "Web on sim_CCCC, V3", 1301.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCCC", Way::Switched(V3), Small, 2);
    "strong2013.table3.10.cccc.v4", "Web on sim_CCCC, V4", 1322.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCCC", Way::Switched(V4), Small, 2);
    "strong2013.table3.10.cclsls.bound", "Web on sim_CCss, interrupts bound", 1704.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Bound, Small, 2);
    "strong2013.table3.10.cclsls.v1", "Web on sim_CCss, V1", 348.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Switched(V1), Small, 2);
    "strong2013.table3.10.cclsls.v2", "Web on sim_CCss, V2", 1100.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Switched(V2), Small, 2);
    "strong2013.table3.10.cclsls.v3", "Web on sim_CCss, V3", 1133.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Switched(V3), Small, 2);
    "strong2013.table3.10.cclsls.v4", "Web on sim_CCss, V4", 1142.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Switched(V4), Small, 2);
    "strong2013.table3.10.cclsls.v5", "Web on sim_CCss, V5", 1140.0, predicted, 10.0, "Strong 2013, Table 3.10"
        => ("web", "CCss", Way::Switched(V5), Small, 2);
}
