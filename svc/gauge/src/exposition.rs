//! Families as text: OpenMetrics 1.0, and the older Prometheus format 0.0.4, which has neither units nor info
//! metrics. In text, a histogram has a bucket for each doubling. The format of [`crate::native`] has all buckets.

use crate::families::{Family, Figure, Kind, Sample, as_number};
use crate::native;
use millpond_model::{HISTOGRAM_BUCKETS, Histogram};
use std::fmt::Write;

/// An exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
    /// Prometheus' protocol buffers.
    Native,
}

impl Format {
    /// The format that the Accept field of a request prefers. Of equally preferred formats, the first one listed.
    #[must_use]
    pub fn accepted(accept: &str) -> Format {
        let wish = |part: &str| {
            let mut words = part.split(';').map(str::trim);
            let format = match words.next()? {
                "application/vnd.google.protobuf" => Format::Native,
                "application/openmetrics-text" => Format::OpenMetrics,
                "text/plain" | "*/*" => Format::Prometheus,
                _ => return None,
            };
            let quality = words.find_map(|word| word.strip_prefix("q=")?.parse::<f64>().ok());
            Some((format, quality.unwrap_or(1.0)))
        };
        let best = |best: (Format, f64), next: (Format, f64)| if next.1 > best.1 { next } else { best };
        accept.split(',').filter_map(wish).fold((Format::Prometheus, 0.0), best).0
    }

    /// The content type of the response.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::Native => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The text of the families in order. A document ends with [`Format::end`].
    #[must_use]
    pub fn families(self, families: &[Family]) -> Vec<u8> {
        if self == Format::Native {
            return native::body(families);
        }
        let mut text = String::new();
        for family in families {
            self.family(family, &mut text);
        }
        text.into_bytes()
    }

    /// The end of a document.
    #[must_use]
    pub fn end(self) -> &'static str {
        if self == Format::OpenMetrics { "# EOF\n" } else { "" }
    }

    fn family(self, family: &Family, text: &mut String) {
        let ending = match family.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        };
        let sampled = format!("{}{ending}", family.name);
        let (named, kind) = match (self, family.kind) {
            (_, Kind::Histogram) => (&family.name, "histogram"),
            (Format::OpenMetrics, Kind::Counter) => (&family.name, "counter"),
            (Format::OpenMetrics, Kind::Info) => (&family.name, "info"),
            (_, Kind::Counter) => (&sampled, "counter"),
            (_, Kind::Gauge | Kind::Info) => (&sampled, "gauge"),
        };
        let _ = write!(text, "# HELP {named} ");
        escape(&family.help, self == Format::OpenMetrics, text);
        let _ = write!(text, "\n# TYPE {named} {kind}\n");
        if let (Format::OpenMetrics, Some(unit)) = (self, family.unit) {
            let _ = writeln!(text, "# UNIT {named} {unit}");
        }
        for sample in &family.samples {
            line(&sampled, sample, text);
        }
    }
}

fn line(name: &str, sample: &Sample, text: &mut String) {
    match &sample.value {
        Figure::Number(value) => sampled(name, &sample.labels, None, *value, text),
        Figure::Histogram(histogram) => {
            let mut below = 0;
            let mut counts = histogram.buckets().iter().peekable();
            for bound in (BOUND_LEAST..HISTOGRAM_BUCKETS).step_by(8) {
                while let Some((_, count)) = counts.next_if(|(bucket, _)| usize::from(*bucket) <= bound) {
                    below += count;
                }
                let bound = u16::try_from(bound).map_or(f64::INFINITY, Histogram::bound_s).to_string();
                sampled(&format!("{name}_bucket"), &sample.labels, Some(&bound), as_number(below), text);
            }
            let all = as_number(histogram.count());
            sampled(&format!("{name}_bucket"), &sample.labels, Some("+Inf"), all, text);
            sampled(&format!("{name}_sum"), &sample.labels, None, histogram.sum().as_secs_f64(), text);
            sampled(&format!("{name}_count"), &sample.labels, None, all, text);
        }
    }
}

/// The bucket of 2^-20 s, 0.95 us. In text, shorter waits share one bucket.
const BOUND_LEAST: usize = 80;

fn sampled(name: &str, labels: &[(&str, String)], bound: Option<&str>, value: f64, text: &mut String) {
    text.push_str(name);
    let all = labels.iter().map(|(label, value)| (*label, value.as_str())).chain(bound.map(|le| ("le", le)));
    let mut is_first = true;
    for (label, value) in all {
        let _ = write!(text, "{}{label}=\"", if is_first { '{' } else { ',' });
        escape(value, true, text);
        text.push('"');
        is_first = false;
    }
    let _ = writeln!(text, "{} {value}", if is_first { "" } else { "}" });
}

/// Escapes a value for both formats: line ends and backslashes, and quotes inside of quotes.
fn escape(value: &str, quotes: bool, text: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::of_frame;
    use millpond_model::{Nanos, WallTime};
    use millpond_observe::catalogue::{Entity, cpu, fence, latency, machine};
    use millpond_observe::{Frame, Row};

    fn frame() -> Frame {
        let mut frame = Frame::at(Nanos::from_secs(9), WallTime(0));
        let row = Row::of(Entity::Machine).with(machine::NAME, "real").with(machine::CPUS, 2u32);
        frame.set_rows(Entity::Machine, vec![row.with(machine::MEMORY, 4096u64)]);
        let row = Row::of(Entity::Cpu).with(cpu::ID, 1u32).with(cpu::SET, 0u32).with(cpu::STATE, "on-line");
        frame.set_rows(Entity::Cpu, vec![row.with(cpu::USER, Nanos::from_millis(1500))]);
        frame
    }

    fn text(format: Format, frame: &Frame, tables: &[Entity]) -> String {
        String::from_utf8(format.families(&of_frame(frame, tables))).unwrap() + format.end()
    }

    #[test]
    fn openmetrics_has_units_and_an_end() {
        let text = text(Format::OpenMetrics, &frame(), &[Entity::Machine, Entity::Cpu]);
        assert_eq!(
            text,
            "# HELP millpond_machine What each machine is.
# TYPE millpond_machine info
millpond_machine_info{machine=\"real\"} 1
# HELP millpond_machine_cpus CPUs that run threads.
# TYPE millpond_machine_cpus gauge
millpond_machine_cpus{machine=\"real\"} 2
# HELP millpond_machine_memory_bytes Memory of the machine.
# TYPE millpond_machine_memory_bytes gauge
# UNIT millpond_machine_memory_bytes bytes
millpond_machine_memory_bytes{machine=\"real\"} 4096
# HELP millpond_cpu What each cpu is.
# TYPE millpond_cpu info
millpond_cpu_info{cpu=\"1\",set=\"0\",state=\"on-line\"} 1
# HELP millpond_cpu_user_seconds Time in user mode.
# TYPE millpond_cpu_user_seconds counter
# UNIT millpond_cpu_user_seconds seconds
millpond_cpu_user_seconds_total{cpu=\"1\"} 1.5
# EOF
"
        );
    }

    #[test]
    fn the_older_format_names_what_it_samples() {
        let text = text(Format::Prometheus, &frame(), &[Entity::Cpu]);
        assert_eq!(
            text,
            "# HELP millpond_cpu_info What each cpu is.
# TYPE millpond_cpu_info gauge
millpond_cpu_info{cpu=\"1\",set=\"0\",state=\"on-line\"} 1
# HELP millpond_cpu_user_seconds_total Time in user mode.
# TYPE millpond_cpu_user_seconds_total counter
millpond_cpu_user_seconds_total{cpu=\"1\"} 1.5
"
        );
    }

    #[test]
    fn hostile_names_stay_in_their_quotes() {
        let mut frame = Frame::default();
        let name = format!("a\"}} 1\nevil_total 2\\{}", "x".repeat(10_000));
        frame.set_rows(Entity::Fence, vec![Row::of(Entity::Fence).with(fence::NAME, name.as_str())]);
        for format in [Format::OpenMetrics, Format::Prometheus] {
            let text = text(format, &frame, &[Entity::Fence]);
            let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(
                samples,
                [format!(
                    "millpond_fence_info{{fence=\"a\\\"}} 1\\nevil_total 2\\\\{}\"}} 1",
                    "x".repeat(10_000)
                )]
            );
        }
    }

    #[test]
    fn a_histogram_has_a_bucket_for_each_doubling() {
        let mut waits = Histogram::default();
        [Nanos(3), Nanos::from_millis(1), Nanos::from_millis(1), Nanos::from_secs(20)]
            .into_iter()
            .for_each(|time| waits.record(time));
        let mut frame = Frame::default();
        let row = Row::of(Entity::Latency).with(latency::SET, 1u32).with(latency::STAGE, "run-queue");
        frame.set_rows(Entity::Latency, vec![row.with(latency::WAITS, waits)]);
        let text = text(Format::Prometheus, &frame, &[Entity::Latency]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE millpond_latency_waits_seconds histogram");
        let bucket = |le: &str, count: u32| {
            format!(
                "millpond_latency_waits_seconds_bucket{{set=\"1\",stage=\"run-queue\",le=\"{le}\"}} {count}"
            )
        };
        assert_eq!(lines[2], bucket("0.00000095367431640625", 1));
        assert_eq!(lines[11], bucket("0.00048828125", 1));
        // 2^-9 s is 1.95 ms.
        assert_eq!(lines[12], bucket("0.0009765625", 1));
        assert_eq!(lines[13], bucket("0.001953125", 3));
        assert_eq!(lines[26], bucket("16", 4));
        assert_eq!(lines[27], bucket("+Inf", 4));
        assert_eq!(
            lines[28],
            "millpond_latency_waits_seconds_sum{set=\"1\",stage=\"run-queue\"} 20.002000003"
        );
        assert_eq!(lines[29], "millpond_latency_waits_seconds_count{set=\"1\",stage=\"run-queue\"} 4");
    }

    #[test]
    fn a_scraper_gets_what_it_asks_for() {
        let new = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::accepted(new), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
        assert_eq!(Format::accepted(""), Format::Prometheus);
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1";
        assert_eq!(Format::accepted(native), Format::Native);
        let text =
            "application/openmetrics-text;q=0.6,application/vnd.google.protobuf;q=0.3,text/plain;q=0.2";
        assert_eq!(Format::accepted(text), Format::OpenMetrics);
    }
}
