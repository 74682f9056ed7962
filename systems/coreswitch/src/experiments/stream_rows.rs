//! The rows of Tables 3.14 and 3.15: KB in 167 ms. Those of Table 3.15 at 1 Gbit/s are left out: the network is idle in them.

use ebb_report::Claim;

use super::programs::Row;
use crate::Cache::*;
use crate::Mechanism::*;
use crate::Way;

super::rows! { "KB", Row,
    "strong2013.table3.14.10g.c.unmodified", "TCPstream on sim_C, unmodified, 10 Gbit/s", 47639.0, calibrated, 3.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "C", Way::Unmodified, Small, 1);
    "strong2013.table3.14.10g.cc.bound", "TCPstream on sim_CC, interrupts bound, 10 Gbit/s", 65049.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Bound, Small, 1);
    "strong2013.table3.14.10g.cc.v1", "TCPstream on sim_CC, V1, 10 Gbit/s", 47158.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Switched(V1), Small, 1);
    "strong2013.table3.14.10g.cc.v2", "TCPstream on sim_CC, V2, 10 Gbit/s", 47823.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Switched(V2), Small, 1);
    "strong2013.table3.14.10g.cc.v3", "TCPstream on sim_CC, V3, 10 Gbit/s", 48378.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Switched(V3), Small, 1);
    "strong2013.table3.14.10g.cc.v4", "TCPstream on sim_CC, V4, 10 Gbit/s", 48536.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Switched(V4), Small, 1);
    "strong2013.table3.14.10g.cc.v5", "TCPstream on sim_CC, V5, 10 Gbit/s", 48031.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CC", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.10g.ss.bound", "TCPstream on sim_SS, interrupts bound, 10 Gbit/s", 19162.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Bound, Small, 1);
    "strong2013.table3.14.10g.ss.v1", "TCPstream on sim_SS, V1, 10 Gbit/s", 14334.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Switched(V1), Small, 1);
    "strong2013.table3.14.10g.ss.v2", "TCPstream on sim_SS, V2, 10 Gbit/s", 14404.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Switched(V2), Small, 1);
    "strong2013.table3.14.10g.ss.v3", "TCPstream on sim_SS, V3, 10 Gbit/s", 13909.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Switched(V3), Small, 1);
    "strong2013.table3.14.10g.ss.v4", "TCPstream on sim_SS, V4, 10 Gbit/s", 13920.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Switched(V4), Small, 1);
    "strong2013.table3.14.10g.ss.v5", "TCPstream on sim_SS, V5, 10 Gbit/s", 13958.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "SS", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.10g.clc.bound", "TCPstream on sim_Cc, interrupts bound, 10 Gbit/s", 41563.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Bound, Small, 1);
    "strong2013.table3.14.10g.clc.v1", "TCPstream on sim_Cc, V1, 10 Gbit/s", 13468.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Switched(V1), Small, 1);
    "strong2013.table3.14.10g.clc.v2", "TCPstream on sim_Cc, V2, 10 Gbit/s", 13680.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Switched(V2), Small, 1);
    "strong2013.table3.14.10g.clc.v3", "TCPstream on sim_Cc, V3, 10 Gbit/s", 13728.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Switched(V3), Small, 1);
    "strong2013.table3.14.10g.clc.v4", "TCPstream on sim_Cc, V4, 10 Gbit/s", 13778.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Switched(V4), Small, 1);
    "strong2013.table3.14.10g.clc.v5", "TCPstream on sim_Cc, V5, 10 Gbit/s", 13746.0, calibrated, 3.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cc", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.10g.cs.bound", "TCPstream on sim_CS, interrupts bound, 10 Gbit/s", 60718.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Bound, Small, 1);
    "strong2013.table3.14.10g.cs.v1", "TCPstream on sim_CS, V1, 10 Gbit/s", 14421.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V1), Small, 1);
    "strong2013.table3.14.10g.cs.v2", "TCPstream on sim_CS, V2, 10 Gbit/s", 14484.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V2), Small, 1);
    "strong2013.table3.14.10g.cs.v3", "TCPstream on sim_CS, V3, 10 Gbit/s", 13951.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V3), Small, 1);
    "strong2013.table3.14.10g.cs.v4", "TCPstream on sim_CS, V4, 10 Gbit/s", 14002.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V4), Small, 1);
    "strong2013.table3.14.10g.cs.v5", "TCPstream on sim_CS, V5, 10 Gbit/s", 14014.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.10g.cls.bound", "TCPstream on sim_Cs, interrupts bound, 10 Gbit/s", 23103.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Bound, Small, 1);
    "strong2013.table3.14.10g.cls.v1", "TCPstream on sim_Cs, V1, 10 Gbit/s", 7105.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V1), Small, 1);
    "strong2013.table3.14.10g.cls.v2", "TCPstream on sim_Cs, V2, 10 Gbit/s", 7139.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V2), Small, 1);
    "strong2013.table3.14.10g.cls.v3", "TCPstream on sim_Cs, V3, 10 Gbit/s", 6987.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V3), Small, 1);
    "strong2013.table3.14.10g.cls.v4", "TCPstream on sim_Cs, V4, 10 Gbit/s", 6987.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V4), Small, 1);
    "strong2013.table3.14.10g.cls.v5", "TCPstream on sim_Cs, V5, 10 Gbit/s", 7021.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.10g.16k.cs.bound", "TCPstream on sim_CS, interrupts bound, 10 Gbit/s, 16 KB", 62680.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Bound, Double, 1);
    "strong2013.table3.14.10g.16k.cs.v1", "TCPstream on sim_CS, V1, 10 Gbit/s, 16 KB", 17357.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V1), Double, 1);
    "strong2013.table3.14.10g.16k.cs.v2", "TCPstream on sim_CS, V2, 10 Gbit/s, 16 KB", 17700.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V2), Double, 1);
    "strong2013.table3.14.10g.16k.cs.v3", "TCPstream on sim_CS, V3, 10 Gbit/s, 16 KB", 17766.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V3), Double, 1);
    "strong2013.table3.14.10g.16k.cs.v4", "TCPstream on sim_CS, V4, 10 Gbit/s, 16 KB", 17827.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V4), Double, 1);
    "strong2013.table3.14.10g.16k.cs.v5", "TCPstream on sim_CS, V5, 10 Gbit/s, 16 KB", 18046.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "CS", Way::Switched(V5), Double, 1);
    "strong2013.table3.14.10g.16k.cls.bound", "TCPstream on sim_Cs, interrupts bound, 10 Gbit/s, 16 KB", 26547.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Bound, Double, 1);
    "strong2013.table3.14.10g.16k.cls.v1", "TCPstream on sim_Cs, V1, 10 Gbit/s, 16 KB", 7836.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V1), Double, 1);
    "strong2013.table3.14.10g.16k.cls.v2", "TCPstream on sim_Cs, V2, 10 Gbit/s, 16 KB", 7953.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V2), Double, 1);
    "strong2013.table3.14.10g.16k.cls.v3", "TCPstream on sim_Cs, V3, 10 Gbit/s, 16 KB", 7965.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V3), Double, 1);
    "strong2013.table3.14.10g.16k.cls.v4", "TCPstream on sim_Cs, V4, 10 Gbit/s, 16 KB", 8002.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V4), Double, 1);
    "strong2013.table3.14.10g.16k.cls.v5", "TCPstream on sim_Cs, V5, 10 Gbit/s, 16 KB", 8039.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream", "Cs", Way::Switched(V5), Double, 1);
    "strong2013.table3.14.1g.cc.bound", "TCPstream on sim_CC, interrupts bound, 1 Gbit/s", 21185.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "CC", Way::Bound, Small, 1);
    "strong2013.table3.14.1g.cc.v5", "TCPstream on sim_CC, V5, 1 Gbit/s", 21185.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "CC", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.1g.ss.bound", "TCPstream on sim_SS, interrupts bound, 1 Gbit/s", 19196.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "SS", Way::Bound, Small, 1);
    "strong2013.table3.14.1g.ss.v5", "TCPstream on sim_SS, V5, 1 Gbit/s", 13954.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "SS", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.1g.clc.bound", "TCPstream on sim_Cc, interrupts bound, 1 Gbit/s", 21185.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "Cc", Way::Bound, Small, 1);
    "strong2013.table3.14.1g.clc.v5", "TCPstream on sim_Cc, V5, 1 Gbit/s", 13734.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "Cc", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.1g.cs.bound", "TCPstream on sim_CS, interrupts bound, 1 Gbit/s", 21185.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "CS", Way::Bound, Small, 1);
    "strong2013.table3.14.1g.cs.v5", "TCPstream on sim_CS, V5, 1 Gbit/s", 14037.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "CS", Way::Switched(V5), Small, 1);
    "strong2013.table3.14.1g.cls.bound", "TCPstream on sim_Cs, interrupts bound, 1 Gbit/s", 20939.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "Cs", Way::Bound, Small, 1);
    "strong2013.table3.14.1g.cls.v5", "TCPstream on sim_Cs, V5, 1 Gbit/s", 6990.0, predicted, 10.0, "Strong 2013, Table 3.14"
        => ("tcpstream-1g", "Cs", Way::Switched(V5), Small, 1);
    "strong2013.table3.15.10g.c.unmodified", "TCPmaerts on sim_C, unmodified, 10 Gbit/s", 20417.0, calibrated, 3.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "C", Way::Unmodified, Small, 1);
    "strong2013.table3.15.10g.cc.bound", "TCPmaerts on sim_CC, interrupts bound, 10 Gbit/s", 18966.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Bound, Small, 1);
    "strong2013.table3.15.10g.cc.v1", "TCPmaerts on sim_CC, V1, 10 Gbit/s", 18688.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Switched(V1), Small, 1);
    "strong2013.table3.15.10g.cc.v2", "TCPmaerts on sim_CC, V2, 10 Gbit/s", 18826.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Switched(V2), Small, 1);
    "strong2013.table3.15.10g.cc.v3", "TCPmaerts on sim_CC, V3, 10 Gbit/s", 18827.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Switched(V3), Small, 1);
    "strong2013.table3.15.10g.cc.v4", "TCPmaerts on sim_CC, V4, 10 Gbit/s", 18827.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Switched(V4), Small, 1);
    "strong2013.table3.15.10g.cc.v5", "TCPmaerts on sim_CC, V5, 10 Gbit/s", 18827.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CC", Way::Switched(V5), Small, 1);
    "strong2013.table3.15.10g.ss.bound", "TCPmaerts on sim_SS, interrupts bound, 10 Gbit/s", 19018.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Bound, Small, 1);
    "strong2013.table3.15.10g.ss.v1", "TCPmaerts on sim_SS, V1, 10 Gbit/s", 17164.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Switched(V1), Small, 1);
    "strong2013.table3.15.10g.ss.v2", "TCPmaerts on sim_SS, V2, 10 Gbit/s", 17840.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Switched(V2), Small, 1);
    "strong2013.table3.15.10g.ss.v3", "TCPmaerts on sim_SS, V3, 10 Gbit/s", 17852.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Switched(V3), Small, 1);
    "strong2013.table3.15.10g.ss.v4", "TCPmaerts on sim_SS, V4, 10 Gbit/s", 17913.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Switched(V4), Small, 1);
    "strong2013.table3.15.10g.ss.v5", "TCPmaerts on sim_SS, V5, 10 Gbit/s", 17913.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "SS", Way::Switched(V5), Small, 1);
    "strong2013.table3.15.10g.cs.bound", "TCPmaerts on sim_CS, interrupts bound, 10 Gbit/s", 18966.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Bound, Small, 1);
    "strong2013.table3.15.10g.cs.v1", "TCPmaerts on sim_CS, V1, 10 Gbit/s", 17751.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Switched(V1), Small, 1);
    "strong2013.table3.15.10g.cs.v2", "TCPmaerts on sim_CS, V2, 10 Gbit/s", 17960.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Switched(V2), Small, 1);
    "strong2013.table3.15.10g.cs.v3", "TCPmaerts on sim_CS, V3, 10 Gbit/s", 17960.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Switched(V3), Small, 1);
    "strong2013.table3.15.10g.cs.v4", "TCPmaerts on sim_CS, V4, 10 Gbit/s", 18023.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Switched(V4), Small, 1);
    "strong2013.table3.15.10g.cs.v5", "TCPmaerts on sim_CS, V5, 10 Gbit/s", 18023.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "CS", Way::Switched(V5), Small, 1);
    "strong2013.table3.15.10g.cls.bound", "TCPmaerts on sim_Cs, interrupts bound, 10 Gbit/s", 13847.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Bound, Small, 1);
    "strong2013.table3.15.10g.cls.v1", "TCPmaerts on sim_Cs, V1, 10 Gbit/s", 11631.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Switched(V1), Small, 1);
    "strong2013.table3.15.10g.cls.v2", "TCPmaerts on sim_Cs, V2, 10 Gbit/s", 11829.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Switched(V2), Small, 1);
    "strong2013.table3.15.10g.cls.v3", "TCPmaerts on sim_Cs, V3, 10 Gbit/s", 11902.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Switched(V3), Small, 1);
    "strong2013.table3.15.10g.cls.v4", "TCPmaerts on sim_Cs, V4, 10 Gbit/s", 11902.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Switched(V4), Small, 1);
    "strong2013.table3.15.10g.cls.v5", "TCPmaerts on sim_Cs, V5, 10 Gbit/s", 11902.0, predicted, 10.0, "Strong 2013, Table 3.15"
        => ("tcpmaerts", "Cs", Way::Switched(V5), Small, 1);
}
