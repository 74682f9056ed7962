//! The text that Prometheus reads.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::metric::{Kind, Value};
use crate::snapshot::{Family, Snapshot};

impl Snapshot {
    /// The metrics in the OpenMetrics text format; those without values are absent.
    ///
    /// # Panics
    /// Never: text is written to memory.
    pub fn openmetrics(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Families(self.clone())));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string");
        text
    }
}

#[derive(Debug)]
struct Families(Snapshot);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let filled = self.0.metrics.iter().filter(|(_, family)| !family.samples.is_empty());
        for (name, family) in filled {
            write(&mut encoder, name, family)?;
        }
        Ok(())
    }
}

fn write(encoder: &mut DescriptorEncoder<'_>, name: &str, family: &Family) -> fmt::Result {
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let unit = family.unit.name().map(|unit| Unit::Other(unit.to_owned()));
    // The encoder writes the endings itself.
    let counter = (family.kind == Kind::Counter).then(|| name.strip_suffix("_total")).flatten();
    let name = counter.unwrap_or(name);
    let ending = family.unit.name().map(|unit| format!("_{unit}")).unwrap_or_default();
    let name = name.strip_suffix(&ending).unwrap_or(name);
    let help = format!("{}.", family.help);
    let mut metric = encoder.encode_descriptor(name, &help, unit.as_ref(), kind)?;
    for sample in &family.samples {
        let labels: Vec<(&str, &str)> =
            sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if labels.is_empty() {
            value(&mut metric, family.kind, &sample.value)?;
        } else {
            value(&mut metric.encode_family(&labels)?, family.kind, &sample.value)?;
        }
    }
    Ok(())
}

fn value(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => {
            metric.encode_counter::<NoLabelSet, _, u64>(count, None)
        }
        (Kind::Counter, value) => {
            metric.encode_counter::<NoLabelSet, _, u64>(&value.number(), None)
        }
        (_, Value::Classes { edges, counts, sum }) => {
            let edges = edges.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = edges.zip(counts.iter().copied()).collect();
            metric.encode_histogram::<NoLabelSet>(*sum, counts.iter().sum(), &buckets, None)
        }
        (_, Value::Count(count)) => metric.encode_gauge(count),
        (_, Value::Real(real)) => metric.encode_gauge(real),
    }
}
