//! Times and quantities; the other formats are checked against the answers of a real server in `validate`.

use super::*;

#[test]
fn go_durations_count_nanoseconds() {
    for (text, want) in [
        ("1h30m", Some(5_400_000_000_000)),
        ("-1.5s", Some(-1_500_000_000)),
        ("10ms", Some(10_000_000)),
        ("0", Some(0)),
        ("", None),
        ("1", None),
        ("1x", None),
        ("999999999h", None),
    ] {
        assert_eq!(times::go_duration_nanos(text), want, "{text}");
    }
}

#[test]
fn quantities_have_a_number_and_a_suffix() {
    for text in ["1", "+1", "-1.5", ".5", "5.", "1n", "1u", "1m", "1k", "1Ki", "1E", "1Ei", "1e3", "1E-3"] {
        assert_eq!(quantity(text), Ok(()), "{text}");
    }
    for text in ["", "x", "1.1.1", ".", "1 Gi", "1GiB", "1e", "1kk", "m"] {
        assert!(quantity(text).is_err(), "{text}");
    }
}
