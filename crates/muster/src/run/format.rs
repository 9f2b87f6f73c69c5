//! Formats progress rows, log prefixes and durations.

use std::time::Duration;

use crate::run::pods::PodStage;
use crate::run::snapshot::ProgressRow;

/// The longest log prefix. Of a longer name the end is shown, because pods of one owner differ only there.
const NAME_CHARS_MAX: usize = 32;
/// The longest reason in a progress line.
const REASON_CHARS_MAX: usize = 300;

/// The pod counts of a row: `2 waiting, 1 running`.
#[must_use]
pub fn counts(row: &ProgressRow) -> String {
    let told = PodStage::ALL.iter().zip(row.counts).filter(|(_, count)| *count > 0);
    let words: Vec<String> = told.map(|(standing, count)| format!("{count} {}", standing.word())).collect();
    let progress = row.progress.map_or_else(String::new, |percent| format!(", {percent} % done"));
    match (words.is_empty(), row.suspended) {
        (true, true) => "suspended".to_owned(),
        (true, false) => "no pods yet".to_owned(),
        (false, _) => words.join(", ") + &progress,
    }
}

/// The reasons why pods do not run, one line each.
#[must_use]
pub fn reasons(row: &ProgressRow) -> Vec<String> {
    let line = |(why, count, example): &(String, usize, _)| {
        let who = if *count > 1 { format!("{count} pods") } else { format!("{example}") };
        format!("{who}: {}", shortened(&one_line(why), REASON_CHARS_MAX))
    };
    row.reasons.iter().map(line).collect()
}

/// The log prefix of a pod.
#[must_use]
pub fn name(pod: &str, container: Option<&str>) -> String {
    let full = container.map_or_else(|| pod.to_owned(), |container| format!("{pod}/{container}"));
    let chars = full.chars().count();
    if chars <= NAME_CHARS_MAX {
        return full;
    }
    let tail: String = full.chars().skip(chars + 1 - NAME_CHARS_MAX).collect();
    format!("…{tail}")
}

/// A duration: `0.8s`, `12s`, `3m 05s`, `2h 10m`.
#[must_use]
pub fn span(time: Duration) -> String {
    let secs = time.as_secs();
    match secs {
        0..10 => format!("{:.1}s", time.as_secs_f64()),
        10..60 => format!("{secs}s"),
        60..3600 => format!("{}m {:02}s", secs / 60, secs % 60),
        _ => format!("{}h {:02}m", secs / 3600, secs / 60 % 60),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let front: String = text.chars().take(max - 1).collect();
    format!("{front}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(counts: [usize; 5], reasons: Vec<(String, usize, muster_tree::Text)>) -> ProgressRow {
        ProgressRow {
            title: "job/j".to_owned(),
            counts,
            reasons,
            suspended: false,
            progress: None,
            ended: None,
        }
    }

    #[test]
    fn counts_tell_what_there_is() {
        assert_eq!(counts(&row([2, 0, 1, 0, 0], vec![])), "2 waiting, 1 running");
        assert_eq!(counts(&row([0; 5], vec![])), "no pods yet");
        assert_eq!(counts(&ProgressRow { suspended: true, ..row([0; 5], vec![]) }), "suspended");
        let trains = ProgressRow { progress: Some(45), ..row([0, 0, 2, 0, 0], vec![]) };
        assert_eq!(counts(&trains), "2 running, 45 % done");
    }

    #[test]
    fn reasons_name_one_pod_or_count_them() {
        let told = reasons(&row(
            [0; 5],
            vec![("A:\n b".to_owned(), 1, "p".into()), ("x".repeat(400), 2, "q".into())],
        ));
        assert_eq!(told[0], "p: A: b");
        assert!(told[1].starts_with("2 pods: xxx") && told[1].ends_with("x…"));
        assert_eq!(told[1].chars().count(), "2 pods: ".len() + REASON_CHARS_MAX);
    }

    #[test]
    fn names_keep_the_end_that_tells_them_apart() {
        assert_eq!(name("hello-0-abcde", None), "hello-0-abcde");
        assert_eq!(name("p", Some("c")), "p/c");
        let long = name("a-very-long-name-of-a-training-job-worker-12-x7k2p", None);
        assert_eq!(long, "…-a-training-job-worker-12-x7k2p");
        assert_eq!(long.chars().count(), NAME_CHARS_MAX);
    }

    #[test]
    fn spans() {
        for (millis, want) in [(840, "0.8s"), (12_000, "12s"), (185_000, "3m 05s"), (7_800_000, "2h 10m")] {
            assert_eq!(span(Duration::from_millis(millis)), want);
        }
    }
}
