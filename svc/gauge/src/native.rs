//! Families as Prometheus' protocol buffers (`io.prometheus.client`), each preceded by its length. Of the formats,
//! only this one has native histograms.
//!
//! The messages have the field numbers of that package, and only the fields that are used.

use crate::families::{Family, Figure, Kind, Sample};
use millpond_model::Histogram;
use prost::Message;

/// The families in order.
#[must_use]
pub fn body(families: &[Family]) -> Vec<u8> {
    families.iter().flat_map(|family| MetricFamily::of(family).encode_length_delimited_to_vec()).collect()
}

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    /// 0: counter, 1: gauge, 4: histogram.
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
    #[prost(string, tag = "5")]
    unit: String,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Native>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Native {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    deltas: Vec<i64>,
}

/// Consecutive buckets.
#[derive(Clone, PartialEq, Message)]
struct Span {
    /// For the first span its first bucket, for others the gap before them.
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

impl MetricFamily {
    fn of(family: &Family) -> MetricFamily {
        let (ending, kind) = match family.kind {
            Kind::Counter => ("_total", 0),
            Kind::Gauge => ("", 1),
            Kind::Info => ("_info", 1),
            Kind::Histogram => ("", 4),
        };
        MetricFamily {
            name: format!("{}{ending}", family.name),
            help: family.help.clone(),
            kind: Some(kind),
            metrics: family.samples.iter().map(|sample| Metric::of(family.kind, sample)).collect(),
            unit: family.unit.unwrap_or_default().to_owned(),
        }
    }
}

impl Metric {
    fn of(kind: Kind, sample: &Sample) -> Metric {
        let label = |(name, value): &(&str, String)| Label { name: (*name).to_owned(), value: value.clone() };
        let mut metric = Metric { labels: sample.labels.iter().map(label).collect(), ..Metric::default() };
        match (&sample.value, kind) {
            (Figure::Histogram(histogram), _) => metric.histogram = Some(Native::of(histogram)),
            (Figure::Number(value), Kind::Counter) => metric.counter = Some(Number { value: Some(*value) }),
            (Figure::Number(value), _) => metric.gauge = Some(Number { value: Some(*value) }),
        }
        metric
    }
}

impl Native {
    fn of(histogram: &Histogram) -> Native {
        let mut spans: Vec<Span> = Vec::new();
        let mut deltas = Vec::new();
        // The bucket that would continue the last span, and the count of the bucket before it.
        let (mut next, mut before) = (0, 0i64);
        for (bucket, count) in histogram.buckets() {
            let at = Histogram::schema_3(*bucket);
            match spans.last_mut() {
                Some(span) if at == next => span.length = span.length.map(|length| length + 1),
                _ => spans.push(Span { offset: Some(at - next), length: Some(1) }),
            }
            next = at + 1;
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            before = count;
        }
        // An empty span marks a histogram without buckets as native.
        if spans.is_empty() {
            spans.push(Span { offset: Some(0), length: Some(0) });
        }
        Native {
            count: Some(histogram.count()),
            sum: Some(histogram.sum().as_secs_f64()),
            schema: Some(3),
            zero_threshold: Some(0.0),
            zero_count: Some(0),
            spans,
            deltas,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use millpond_model::Nanos;
    use std::sync::Arc;

    fn family(kind: Kind, value: Figure) -> Family {
        Family {
            name: "a".into(),
            help: "b".into(),
            unit: None,
            kind,
            samples: vec![Sample { labels: vec![("c", "\"\n".into())], value }],
        }
    }

    #[test]
    fn a_counter_has_the_bytes_of_the_format() {
        let bytes = body(&[family(Kind::Counter, Figure::Number(1.0))]);
        let metric =
            [&[0x0a, 7, 0x0a, 1, b'c', 0x12, 2, b'"', b'\n', 0x1a, 9, 9][..], &1f64.to_le_bytes()].concat();
        let inner = [b"\x0a\x07a_total\x12\x01b\x18\x00\x22\x14", metric.as_slice()].concat();
        assert_eq!(metric.len(), 0x14);
        assert_eq!(bytes, [&[u8::try_from(inner.len()).unwrap()], inner.as_slice()].concat());
    }

    #[test]
    fn buckets_are_spans_of_differences() {
        let mut waits = Histogram::default();
        [1_000_000, 1_000_000, 1_100_000, 2_000_000_000]
            .map(Nanos)
            .into_iter()
            .for_each(|time| waits.record(time));
        let native = Native::of(&waits);
        assert_eq!((native.count, native.sum, native.schema), (Some(4), Some(2.0031), Some(3)));
        // 1 ms is in bucket -79, 1.1 ms in the next one, 2 s in 8.
        let span = |offset, length| Span { offset: Some(offset), length: Some(length) };
        assert_eq!(native.spans, [span(-79, 2), span(85, 1)]);
        assert_eq!(native.deltas, [2, -1, 0]);
        assert_eq!(Native::of(&Histogram::default()).spans, [span(0, 0)]);
        let bytes = body(&[family(Kind::Histogram, Figure::Histogram(Arc::new(waits)))]);
        let read = MetricFamily::decode_length_delimited(bytes.as_slice()).unwrap();
        assert_eq!((read.kind, read.metrics[0].histogram.as_ref()), (Some(4), Some(&native)));
    }
}
