//! Timestamps in the formats of the API.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use muster_tree::Tree;

/// A timestamp in microseconds since the Unix epoch (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl Time {
    /// Parses an RFC 3339 timestamp; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Time> {
        text.parse::<Timestamp>().ok().map(|t| Time(t.as_microsecond()))
    }

    /// The timestamp in a field; `None` if the field is absent, null or malformed.
    #[must_use]
    pub fn of(field: Option<&Tree>) -> Option<Time> {
        field.and_then(Tree::as_str).and_then(Time::parse)
    }

    /// RFC 3339 in UTC with whole seconds, as `metav1.Time` is written.
    #[must_use]
    pub fn to_seconds_text(self) -> String {
        self.stamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// RFC 3339 in UTC with six fraction digits, as `metav1.MicroTime` is written.
    #[must_use]
    pub fn to_micros_text(self) -> String {
        self.stamp().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }

    /// Truncates to whole seconds, the precision of `metav1.Time`: what a reader of the written field gets.
    #[must_use]
    pub fn whole_seconds(self) -> Time {
        Time(self.0.div_euclid(1_000_000) * 1_000_000)
    }

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    fn stamp(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(later.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_seconds_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let time = Time::parse("2026-01-02T03:04:05.678901Z").unwrap();
        assert_eq!(time.to_seconds_text(), "2026-01-02T03:04:05Z");
        assert_eq!(time.to_micros_text(), "2026-01-02T03:04:05.678901Z");
        assert_eq!(Time::parse(&time.to_seconds_text()), Some(time.whole_seconds()));
        assert_eq!(Time::parse("2026-01-02T05:04:05+02:00"), Some(time.whole_seconds()));
        assert_eq!((time + Duration::from_secs(2)).since(time), Duration::from_secs(2));
        assert_eq!(Time::parse("yesterday"), None);
    }
}
