//! Human-readable durations as kubectl prints them.

use muster_api::time::Time;
use muster_tree::Tree;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;
const MICROS: i64 = 1_000_000;

/// How long ago a field's instant was; `<unknown>` when it holds none.
pub(super) fn since(field: Option<&Tree>, now: Time) -> String {
    Time::of(field).map_or_else(|| "<unknown>".to_owned(), |then| span(then, now))
}

/// The span from `from` to `to`.
pub(super) fn span(from: Time, to: Time) -> String {
    // Rounds toward zero: a clock skew of one second shows no `<invalid>`.
    human((to.0 - from.0) / MICROS)
}

fn human(secs: i64) -> String {
    match secs {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if secs < 2 * MINUTE => format!("{secs}s"),
        _ if secs < 10 * MINUTE => two(secs, MINUTE, 'm', 1, 's'),
        _ if secs < 3 * HOUR => format!("{}m", secs / MINUTE),
        _ if secs < 8 * HOUR => two(secs, HOUR, 'h', MINUTE, 'm'),
        _ if secs < 2 * DAY => format!("{}h", secs / HOUR),
        _ if secs < 8 * DAY => two(secs, DAY, 'd', HOUR, 'h'),
        _ if secs < 2 * YEAR => format!("{}d", secs / DAY),
        _ if secs < 8 * YEAR => two(secs, YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", secs / YEAR),
    }
}

/// `secs` in a large unit and, unless zero, the remainder in a small one.
fn two(secs: i64, large: i64, large_sign: char, small: i64, small_sign: char) -> String {
    let rest = secs % large / small;
    if rest == 0 {
        format!("{}{large_sign}", secs / large)
    } else {
        format!("{}{large_sign}{rest}{small_sign}", secs / large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_keep_two_or_three_figures() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (131, "2m11s"),
            (10 * MINUTE, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (51 * HOUR, "2d3h"),
            (8 * DAY + 5 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (8 * YEAR + 3 * DAY, "8y"),
        ];
        for (secs, want) in cases {
            assert_eq!(human(secs), want, "{secs} seconds");
        }
        assert_eq!(since(None, Time(0)), "<unknown>");
    }
}
