//! Validation of CronJob schedules and time zones.
//!
//! # Deliberately absent
//!
//! Evaluating schedules: no controller starts Jobs from them.

/// Sorted time zone names, one per line.
const ZONES: &str = include_str!("zones.txt");
/// Maximum length of one segment of a time zone name.
const ZONE_PART_MAX: usize = 14;
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// Prefixes of a schedule with its own time zone.
const OWN_ZONE: [&str; 2] = ["TZ=", "CRON_TZ="];
/// Number of fields of a schedule.
const FIELDS: usize = 5;

/// A field: minimum, maximum, and named values.
struct Field {
    min: u64,
    max: u64,
    words: &'static [&'static str],
}

const ALL: [Field; FIELDS] = [
    Field { min: 0, max: 59, words: &[] },
    Field { min: 0, max: 23, words: &[] },
    Field { min: 1, max: 31, words: &[] },
    Field {
        min: 1,
        max: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { min: 0, max: 6, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Checks a schedule.
///
/// # Errors
/// The parse error.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if OWN_ZONE.iter().any(|mark| rest.starts_with(mark)) {
        let Some((zone, after)) = rest.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        let zone = zone.split_once('=').map_or(zone, |(_, zone)| zone);
        is_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return named(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS {
        let found = fields.join(" ");
        return Err(format!("expected exactly {FIELDS} fields, found {}: [{found}]", fields.len()));
    }
    let mut each = fields.iter().zip(&ALL).flat_map(|(text, field)| text.split(',').map(move |e| (e, field)));
    each.try_for_each(|(text, field)| if text.is_empty() { Ok(()) } else { field.check(text) })
}

fn named(schedule: &str) -> Result<(), String> {
    if NAMED.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix("@every ") {
        Some(pause) => duration(pause).map_err(|why| format!("failed to parse duration {schedule}: {why}")),
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

impl Field {
    /// Parses one item of a field: `*`, `5`, `5-9`, each with an optional step such as `/2`.
    fn check(&self, text: &str) -> Result<(), String> {
        let mut halves = text.split('/');
        let (range, step) = (halves.next().unwrap_or_default(), halves.next());
        let ends: Vec<&str> = range.split('-').collect();
        let (from, mut to) = match ends[..] {
            ["*" | "?", ..] => (self.min, self.max),
            [only] => (self.number(only)?, self.number(only)?),
            [from, to] => (self.number(from)?, self.number(to)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        if halves.next().is_some() {
            return Err(format!("too many slashes: {text}"));
        }
        let step = step.map_or(Ok(1), number)?;
        if ends.len() == 1 && text.contains('/') {
            to = self.max;
        }
        let (min, max) = (self.min, self.max);
        match () {
            () if from < min => Err(format!("beginning of range ({from}) below minimum ({min}): {text}")),
            () if to > max => Err(format!("end of range ({to}) above maximum ({max}): {text}")),
            () if from > to => Err(format!("beginning of range ({from}) beyond end of range ({to}): {text}")),
            () if step == 0 => Err(format!("step of range should be a positive number: {text}")),
            () => Ok(()),
        }
    }

    /// Parses a number or a named value.
    fn number(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.words.iter().zip(self.min..).find(|(word, _)| **word == lower) {
            Some((_, n)) => Ok(n),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    let found = text.parse().ok().filter(|_| digits).filter(|n| i64::try_from(*n).is_ok());
    found.ok_or_else(|| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
}

/// Parses a duration such as `1h30m`.
fn duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let mut rest = text.trim_start_matches(['-', '+']);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let count = &rest[..rest.len() - unit.len()];
        if count.parse::<f64>().is_err() {
            return Err(invalid());
        }
        rest = unit.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.');
        match &unit[..unit.len() - rest.len()] {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" => {}
            other => return Err(format!("time: unknown unit {other:?} in duration {text:?}")),
        }
    }
    Ok(())
}

/// Checks that a time zone exists.
///
/// # Errors
/// The time zone is unknown.
pub(super) fn is_zone(name: &str) -> Result<(), String> {
    let known = matches!(name, "" | "UTC" | "Local") || ZONES.lines().any(|zone| zone == name);
    if known { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

/// Checks the syntax of a time zone name.
pub(super) fn may_be_zone(name: &str) -> bool {
    name.split('/').all(|part| {
        let letters = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
        (1..=ZONE_PART_MAX).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(letters)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "@hourly",
            "@every 1h30m",
            "0 0 * JAN sun",
            "? * * * *",
            ", * * * *",
            "*/99 * * * *",
            "5/10 * * * *",
            "0-59/5 0 1,15 * MON-FRI",
            "TZ=UTC 0 * * * *",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        ] {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn zones() {
        for (name, may_be, is) in [
            ("Europe/Berlin", true, true),
            ("Etc/GMT+5", true, true),
            ("Nowhere/Else", true, false),
            ("../etc", false, false),
            ("a//b", false, false),
        ] {
            assert_eq!((may_be_zone(name), is_zone(name).is_ok()), (may_be, is), "{name}");
        }
    }
}
