//! Output of a run: a live progress block on a terminal, plain progress lines elsewhere, and log lines with a prefix.
//!
//! Log lines are data and go to stdout; everything else goes to stderr. With `-o json` the summary is the data, and log
//! lines go to stderr, too.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use console::{Color, Style, Term};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use muster_api::client::Uid;
use muster_api::time::Time;
use muster_tree::Text;

use crate::run::format;
use crate::run::logs::{LogEvent, LogOutput, LogSource};
use crate::run::snapshot::{ProgressRow, WorkResult};

/// The upper bound of pieces of work in the live block.
const ROWS_SHOWN_MAX: usize = 12;
/// Without a terminal, the shortest interval between two progress lines of one piece of work.
const TOLD_PAUSE: Duration = Duration::from_secs(1);
/// The log lines of each pod that are kept for the summary.
const LAST_LINES: usize = 10;
/// The characters of each kept line.
const LAST_LINE_CHARS_MAX: usize = 400;
/// Prefix colours of pods, readable on dark and light backgrounds.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Blue, Color::Red];
/// The frames of the spinner.
const TURNS: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// The output that the flags ask for.
#[derive(Debug, Clone, Copy)]
pub struct DisplayOptions {
    pub progress: bool,
    pub logs: bool,
    /// Whether stdout is reserved for the JSON summary.
    pub json: bool,
}

pub struct RunDisplay {
    wanted: DisplayOptions,
    colour: bool,
    live: Option<LiveBlock>,
    told: BTreeMap<String, (Vec<String>, Time)>,
    names: LinePrefixes,
    /// The last drawing of each container in an unfinished line.
    drawn: BTreeMap<(Uid, Text), Drawn>,
    /// Whether drawings are shown in the live block, each over the previous one; otherwise each is printed as a line.
    in_place: bool,
    tails: BTreeMap<Uid, VecDeque<String>>,
    told_unreadable: bool,
}

/// A drawing in an unfinished line.
struct Drawn {
    text: String,
    /// The same with the pod prefix.
    shown: String,
}

/// The progress block that is redrawn in place.
struct LiveBlock {
    all: MultiProgress,
    block: ProgressBar,
    turn: usize,
}

/// Width and colours of the pod prefixes of log lines.
#[derive(Default)]
struct LinePrefixes {
    width: usize,
    colours: BTreeMap<Uid, usize>,
}

impl RunDisplay {
    /// Chooses colours and the live block from flags, terminal and `NO_COLOR`.
    #[must_use]
    pub fn new(wanted: DisplayOptions) -> RunDisplay {
        let stdout = !wanted.json && io::stdout().is_terminal();
        let stderr = io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = if wanted.json { stderr } else { stdout };
        RunDisplay {
            wanted,
            colour: terminal && !plain,
            live: (wanted.progress && stderr).then(LiveBlock::new),
            told: BTreeMap::new(),
            names: LinePrefixes::default(),
            drawn: BTreeMap::new(),
            in_place: wanted.progress && wanted.logs && stderr && stdout,
            tails: BTreeMap::new(),
            told_unreadable: false,
        }
    }

    /// Shows progress.
    pub fn show(&mut self, rows: &[ProgressRow], took: Duration, now: Time) {
        if let Some(live) = &mut self.live {
            let drawn = self.drawn.values().filter(|_| self.in_place);
            live.show(rows, drawn.map(|it| it.shown.trim_end()), took);
            return;
        }
        if !self.wanted.progress {
            return;
        }
        for row in rows.iter().filter(|row| !is_quiet(row, took)) {
            self.print_row(row, now);
        }
    }

    /// Prints the progress of one piece of work as plain lines, if they changed, at most once per interval.
    fn print_row(&mut self, row: &ProgressRow, now: Time) {
        let mut lines = vec![format!("{}: {}", row.title, format::counts(row))];
        lines.extend(format::reasons(row).iter().map(|reason| format!("{}: {reason}", row.title)));
        let soon = |(old, at): &(Vec<String>, Time)| *old == lines || now.since(*at) < TOLD_PAUSE;
        if self.told.get(&row.title).is_some_and(soon) && row.ended.is_none() {
            return;
        }
        let old = self.told.insert(row.title.clone(), (lines.clone(), now)).map(|(old, _)| old);
        for line in lines.iter().filter(|line| !old.as_ref().is_some_and(|old| old.contains(line))) {
            eprintln!("{line}");
        }
    }

    /// Prints log output.
    pub fn print(&mut self, spoken: &mut Vec<LogEvent>) {
        let mut text = String::new();
        let mut notes = Vec::new();
        for (speaker, said) in spoken.drain(..) {
            match said {
                LogOutput::Line(line) => {
                    self.drawn.remove(&key(&speaker));
                    if self.wanted.logs {
                        text += &self.names.line(&speaker, &line, self.colour);
                    }
                    self.keep(&speaker, &line);
                }
                LogOutput::Drawing(drawing) => {
                    if self.wanted.logs && !self.in_place {
                        text += &self.names.line(&speaker, &drawing, self.colour);
                    }
                    let shown = self.names.line(&speaker, &drawing, false);
                    self.drawn.insert(key(&speaker), Drawn { text: drawing, shown });
                }
                LogOutput::Settled => text += &self.settle(&speaker),
                LogOutput::Unreadable(why) if !self.told_unreadable && self.wanted.logs => {
                    self.told_unreadable = true;
                    notes.push(format!("{}: its log cannot be read: {why}", speaker.pod));
                }
                LogOutput::Unreadable(_) => {}
            }
        }
        let json = self.wanted.json;
        self.between(|| {
            // Errors are ignored: a reader such as `head` may have closed the pipe.
            let _ = if json {
                io::stderr().write_all(text.as_bytes())
            } else {
                io::stdout().write_all(text.as_bytes())
            };
            notes.iter().for_each(|note| eprintln!("{note}"));
        });
    }

    /// Turns the last drawing of a container into a line, unless it was printed as one.
    fn settle(&mut self, speaker: &LogSource) -> String {
        let Some(Drawn { text, .. }) = self.drawn.remove(&key(speaker)) else { return String::new() };
        self.keep(speaker, &text);
        if self.in_place { self.names.line(speaker, &text, self.colour) } else { String::new() }
    }

    /// Prints explanations of pending work.
    pub fn explain(&self, lines: &[String]) {
        if self.wanted.progress && !lines.is_empty() {
            self.print_message(&lines.join("\n"));
        }
    }

    pub fn print_message(&self, text: &str) {
        self.between(|| eprintln!("{text}"));
    }

    /// Clears the live block.
    pub fn finish(&mut self) {
        if let Some(live) = self.live.take() {
            live.block.finish_and_clear();
        }
    }

    /// The log tail of a pod.
    #[must_use]
    pub fn last_lines(&self, uid: &str) -> Vec<String> {
        self.tails.get(uid).map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
    }

    fn keep(&mut self, speaker: &LogSource, line: &str) {
        let tail = self.tails.entry(speaker.uid.clone()).or_default();
        if tail.len() == LAST_LINES {
            tail.pop_front();
        }
        tail.push_back(line.chars().take(LAST_LINE_CHARS_MAX).collect());
    }

    fn between(&self, print: impl FnOnce()) {
        match &self.live {
            Some(live) => live.all.suspend(print),
            None => print(),
        }
    }
}

fn key(speaker: &LogSource) -> (Uid, Text) {
    (speaker.uid.clone(), speaker.container.clone())
}

impl LinePrefixes {
    fn line(&mut self, speaker: &LogSource, text: &str, colour: bool) -> String {
        let container = speaker.one_of_several.then_some(speaker.container.as_str());
        let name = format::name(&speaker.pod, container);
        self.width = self.width.max(name.chars().count());
        let next = self.colours.len();
        let which = *self.colours.entry(speaker.uid.clone()).or_insert(next);
        let front = format!("{name:<width$} |", width = self.width);
        let style = Style::new().fg(COLOURS[which % COLOURS.len()]).force_styling(colour);
        format!("{} {text}\n", style.apply_to(front))
    }
}

impl LiveBlock {
    fn new() -> LiveBlock {
        let all = MultiProgress::new();
        let block = all.add(ProgressBar::new_spinner());
        block.set_style(ProgressStyle::with_template("{msg}").expect("a template that never changes"));
        LiveBlock { all, block, turn: 0 }
    }

    fn show<'a>(&mut self, rows: &[ProgressRow], drawn: impl Iterator<Item = &'a str>, took: Duration) {
        self.turn += 1;
        let width = usize::from(Term::stderr().size().1).max(20);
        let turn = TURNS[self.turn % TURNS.len()];
        let cut = |line: &str| line.chars().take(width - 1).collect::<String>() + "\n";
        let drawn: String = drawn.take(ROWS_SHOWN_MAX).map(cut).collect();
        self.block.set_message(drawn + &block(rows, took, turn, width));
        self.block.tick();
    }
}

/// Whether a row is not worth a line: that there are no pods is normal at the start and after the end.
fn is_quiet(row: &ProgressRow, took: Duration) -> bool {
    row.counts == [0; 5] && (row.ended.is_some() || took < TOLD_PAUSE)
}

/// The live block: one line for each piece of work, followed by the reasons why its pods do not run.
fn block(rows: &[ProgressRow], took: Duration, turn: char, width: usize) -> String {
    let mut lines = Vec::new();
    // Unfinished work first: the bound cuts off the rest.
    let (over, going): (Vec<&ProgressRow>, Vec<&ProgressRow>) =
        rows.iter().partition(|row| row.ended.is_some());
    for row in going.iter().chain(&over).take(ROWS_SHOWN_MAX) {
        let mark = match &row.ended {
            None => turn,
            Some(WorkResult::Completed) => '✓',
            Some(WorkResult::Failed(_)) => '✗',
        };
        lines.push(format!("{mark} {}  {}", row.title, format::counts(row)));
        lines.extend(format::reasons(row).iter().map(|reason| format!("    {reason}")));
    }
    if rows.len() > ROWS_SHOWN_MAX {
        lines.push(format!("  and {} more", rows.len() - ROWS_SHOWN_MAX));
    }
    lines.push(format!("  {}", format::span(took)));
    let fits = |line: String| line.chars().take(width - 1).collect::<String>();
    lines.into_iter().map(fits).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn row(title: &str, running: usize, ended: Option<WorkResult>) -> ProgressRow {
        let counts = [0, 0, running, 0, 0];
        ProgressRow {
            title: title.to_owned(),
            counts,
            reasons: Vec::new(),
            suspended: false,
            progress: None,
            ended,
        }
    }

    #[test]
    fn what_goes_on_stands_above_what_is_over() {
        let mut rows = vec![row("job/a", 0, Some(WorkResult::Completed)), row("job/b", 2, None)];
        rows[1].reasons.push(("Unschedulable: a long story".to_owned(), 1, "b-0".into()));
        let text = block(&rows, Duration::from_secs(3), '*', 20);
        assert_eq!(text, "* job/b  2 running\n    b-0: Unschedula\n✓ job/a  no pods ye\n  3.0s");
        let many: Vec<ProgressRow> =
            (0..ROWS_SHOWN_MAX + 3).map(|n| row(&format!("job/{n}"), 1, None)).collect();
        assert!(block(&many, Duration::ZERO, '*', 80).contains("and 3 more"));
    }

    #[test]
    fn lines_have_a_name_in_front() {
        let speaker = |pod: &str, one_of_several| LogSource {
            namespace: "n".into(),
            pod: pod.into(),
            uid: pod.into(),
            container: "c".into(),
            one_of_several,
        };
        let mut names = LinePrefixes::default();
        assert_eq!(names.line(&speaker("long-name", false), "a", false), "long-name | a\n");
        assert_eq!(names.line(&speaker("p", false), "b", false), "p         | b\n");
        assert_eq!(names.line(&speaker("p", true), "", false), "p/c       | \n");
        let coloured = names.line(&speaker("p", false), "b", true);
        assert_eq!(coloured, "\u{1b}[33mp         |\u{1b}[0m b\n", "the text itself stays as it is");
    }

    fn someone() -> Arc<LogSource> {
        Arc::new(LogSource {
            namespace: "n".into(),
            pod: "p".into(),
            uid: "u".into(),
            container: "c".into(),
            one_of_several: false,
        })
    }

    #[test]
    fn of_drawings_the_last_one_stays() {
        let mut screen = RunDisplay::new(DisplayOptions { progress: false, logs: false, json: false });
        let drawing = |text: &str| (someone(), LogOutput::Drawing(text.to_owned()));
        screen.print(&mut vec![drawing("10%"), drawing("20%"), (someone(), LogOutput::Settled)]);
        screen.print(&mut vec![drawing("5%"), (someone(), LogOutput::Line("100%".to_owned()))]);
        assert_eq!(screen.last_lines("u"), ["20%", "100%"]);
    }

    #[test]
    fn the_last_lines_are_kept_and_no_more() {
        let wanted = DisplayOptions { progress: false, logs: false, json: false };
        let mut screen = RunDisplay::new(wanted);
        let speaker = someone();
        let line = |n: usize| (speaker.clone(), LogOutput::Line(format!("{n} {}", "x".repeat(1000))));
        screen.print(&mut (0..LAST_LINES + 2).map(line).collect());
        let kept = screen.last_lines("u");
        assert_eq!(kept.len(), LAST_LINES);
        assert!(kept[0].starts_with("2 ") && kept[0].chars().count() == LAST_LINE_CHARS_MAX);
        assert!(screen.last_lines("other").is_empty());
    }
}
