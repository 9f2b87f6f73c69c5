//! Formats of dates, times and durations.

use jiff::civil::Date;

/// The two layouts of time stamps in built-in kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLayout {
    /// To the second; a fraction is accepted.
    Seconds,
    /// To the microsecond; six digits are a must.
    Micros,
}

impl TimeLayout {
    fn words(self) -> &'static str {
        match self {
            TimeLayout::Seconds => "2006-01-02T15:04:05Z07:00",
            TimeLayout::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Whether text is a time stamp; the error has the words of the real server's decoder.
pub fn go_time(text: &str, layout: TimeLayout) -> Result<(), String> {
    let wrong = |(rest, element): (&str, &str)| {
        format!("parsing time {text:?} as {:?}: cannot parse {rest:?} as {element:?}", layout.words())
    };
    let (fields, rest) = clock(text).map_err(wrong)?;
    let rest = match (fraction(rest), layout) {
        (None, TimeLayout::Micros) => return Err(wrong((rest, ".000000"))),
        (Some((digits, _)), TimeLayout::Micros) if digits != 6 => return Err(wrong((rest, ".000000"))),
        (Some((_, rest)), _) => rest,
        (None, TimeLayout::Seconds) => rest,
    };
    if !is_zone(rest) {
        return Err(wrong((rest, "Z07:00")));
    }
    out_of_range(fields).map_or(Ok(()), |what| Err(format!("parsing time {text:?}: {what} out of range")))
}

/// Reads `2006-01-02T15:04:05` and returns its six numbers and the rest, or what could not be read as what.
fn clock(text: &str) -> Result<([u32; 6], &str), (&str, &'static str)> {
    const ELEMENTS: [(&str, &str); 6] =
        [("2006", "-"), ("01", "-"), ("02", "T"), ("15", ":"), ("04", ":"), ("05", "")];
    let mut fields = [0; 6];
    let mut rest = text;
    for (field, (element, after)) in fields.iter_mut().zip(ELEMENTS) {
        let digits = rest.get(..element.len()).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|d| d.parse().ok()).ok_or((rest, element))?;
        *field = number;
        rest = &rest[element.len()..];
        rest = rest.strip_prefix(after).ok_or((rest, after))?;
    }
    Ok((fields, rest))
}

/// The number of digits after a point or comma, and what follows.
fn fraction(text: &str) -> Option<(usize, &str)> {
    let digits = text.strip_prefix(['.', ','])?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (end > 0).then(|| (end, &digits[end..]))
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let digit = |b: &u8| b.is_ascii_digit();
            [h1, h2, m1, m2].into_iter().all(digit) && (*h1, *h2) <= (b'2', b'4') && *m1 < b'6'
        }
        _ => false,
    }
}

fn out_of_range([year, month, day, hour, minute, second]: [u32; 6]) -> Option<&'static str> {
    if !(1..=12).contains(&month) {
        return Some("month");
    }
    if !is_day(year, month, day) {
        return Some("day");
    }
    [(hour > 23, "hour"), (minute > 59, "minute"), (second > 59, "second")]
        .into_iter()
        .find_map(|(wrong, what)| wrong.then_some(what))
}

fn is_day(year: u32, month: u32, day: u32) -> bool {
    let (Ok(year), Ok(month), Ok(day)) = (i16::try_from(year), i8::try_from(month), i8::try_from(day)) else {
        return false;
    };
    Date::new(year, month, day).is_ok()
}

/// A date in the form `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    text.len() == 10 && go_time(&format!("{text}T00:00:00Z"), TimeLayout::Seconds).is_ok()
}

/// RFC 3339 in either case of its letters.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    text.is_ascii() && go_time(&text, TimeLayout::Seconds).is_ok()
}

/// `1h30m`, `-1.5h`, `22 ns`, `3 days`: Go durations, and numbers with a unit in words.
pub(super) fn is_duration(text: &str) -> bool {
    go_duration_nanos(text).is_some() || is_worded_duration(text)
}

/// The nanoseconds of a Go duration such as `1h30m`.
pub(crate) fn go_duration_nanos(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    let mut any = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (nanos, after) = unit(&rest[end..])?;
        total += number * nanos;
        rest = after;
        any = true;
    }
    let total = if negative { -total } else { total };
    #[expect(clippy::cast_possible_truncation, reason = "checked against the range just before")]
    (any && total.abs() < 9.2e18).then_some(total as i64)
}

fn unit(text: &str) -> Option<(f64, &str)> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 6e10),
        ("h", 3.6e12),
    ];
    UNITS.iter().find_map(|(word, nanos)| Some((*nanos, text.strip_prefix(word)?)))
}

/// At least one number followed by a word that begins like a unit of time.
fn is_worded_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["ns", "nano", "micro", "milli", "sec", "min", "hour"];
    const SHORT: [&str; 9] = ["us", "µs", "ms", "s", "m", "h", "d", "w", "hr"];
    let mut words = text.split_inclusive(|c: char| c.is_ascii_digit()).peekable();
    words.next();
    text.chars().any(|c| c.is_ascii_digit())
        && words.any(|piece| {
            let word = piece.trim_end_matches(|c: char| c.is_ascii_digit()).trim().to_lowercase();
            SHORT.contains(&word.as_str())
                || UNITS.iter().chain(&["day", "week"]).any(|unit| word.starts_with(unit))
        })
}
