//! The metrics of a server, and percentiles of times.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Tree, tree};

pub struct Numbers(pub String);

impl Numbers {
    /// The sum of all samples of this name whose labels hold this text.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        self.samples(name).filter(|(labels, _)| labels.contains(label)).map(|(_, value)| value).sum()
    }

    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            let whole = labels.is_empty() || labels.starts_with('{');
            whole.then(|| Some((labels, value.parse().ok()?))).flatten()
        })
    }

    /// The bound that this share of a histogram's samples does not exceed.
    pub fn bound(&self, name: &str, share: f64) -> f64 {
        let buckets = format!("{name}_bucket");
        let all: Vec<(f64, f64)> = self
            .samples(&buckets)
            .filter_map(|(labels, count)| {
                let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
                Some((bound.parse().unwrap_or(f64::INFINITY), count))
            })
            .collect();
        let total = all.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let within = all.iter().filter(|(_, count)| *count >= total * share).map(|(bound, _)| *bound);
        within.fold(f64::INFINITY, f64::min)
    }
}

/// Times in seconds, sorted; before is negative.
pub struct Spread(Vec<f64>);

impl Spread {
    pub fn new(all: impl IntoIterator<Item = f64>) -> Spread {
        let mut all: Vec<f64> = all.into_iter().collect();
        all.sort_by(f64::total_cmp);
        Spread(all)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The one that this share of them does not exceed.
    pub fn share(&self, share: f64) -> f64 {
        let at = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    pub fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(0.0)
    }

    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    /// The farthest from zero.
    pub fn worst(&self) -> f64 {
        self.max().abs().max(self.min().abs())
    }

    pub fn text(&self) -> String {
        format!("p50 {:.3}  p99 {:.3}  max {:.3}", self.share(0.5), self.share(0.99), self.max())
    }

    pub fn tree(&self) -> Tree {
        tree!({"count": self.count() as i64, "min": self.min(), "p50": self.share(0.5), "p99": self.share(0.99),
            "max": self.max()})
    }

    /// How many there were in each of so many parts of them, per minute.
    pub fn rates(&self, parts: usize) -> Vec<(f64, f64)> {
        let each = self.0.len().div_ceil(parts).max(1);
        let mut from = 0.0;
        let rate = |part: &[f64]| {
            let until = part.last().copied().unwrap_or(0.0);
            let took = (until - from).max(1e-3);
            from = until;
            (until, part.len() as f64 * 60.0 / took)
        };
        self.0.chunks(each).map(rate).collect()
    }
}

/// How long after that instant this one is, in seconds; before is negative.
pub fn seconds(at: Time, since: Time) -> f64 {
    (at.0 - since.0) as f64 / 1e6
}

pub fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// CPU time of a minute, in milliseconds.
pub fn millis_a_minute(cpu: Duration, over: Duration) -> f64 {
    cpu.as_secs_f64() * 1e3 * 60.0 / over.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_those_of_the_very_name() {
        let numbers = Numbers(
            "calls_total{verb=\"get\"} 2\ncalls_total{verb=\"put\"} 3\ncalls_totals 9\ndepth 4\n".into(),
        );
        assert_eq!(numbers.sum("calls_total", ""), 5.0);
        assert_eq!(numbers.sum("calls_total", "\"put\""), 3.0);
        assert_eq!(numbers.sum("depth", ""), 4.0);
        assert_eq!(numbers.sum("absent", ""), 0.0);
    }

    #[test]
    fn a_share_of_a_histogram_is_told_by_its_bound() {
        let text = "late_bucket{le=\"0.5\"} 90\nlate_bucket{le=\"1\"} 99\nlate_bucket{le=\"+Inf\"} 100\n";
        let numbers = Numbers(text.into());
        assert_eq!([0.5, 0.95, 1.0].map(|share| numbers.bound("late", share)), [0.5, 1.0, f64::INFINITY]);
    }

    #[test]
    fn rates_are_told_for_equal_parts() {
        let spread = Spread::new([4.0, 1.0, 2.0, 3.0]);
        assert_eq!(spread.rates(2), [(2.0, 60.0), (4.0, 60.0)]);
        assert_eq!((spread.min(), spread.share(0.5), spread.max()), (1.0, 2.0, 4.0));
        assert_eq!(Spread::new([-3.0, 1.0]).worst(), 3.0);
    }
}
