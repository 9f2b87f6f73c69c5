//! The figures as a table for people and as JSON for machines.

use std::fmt::Write as _;

use muster_tests::real::Disk;
use muster_tree::{Tree, tree};

use super::planes::Who;
use super::play::{PHASE_MAX, Phase, Row, WRITTEN};
use crate::client::IN_FLIGHT;
use crate::measure::busy;
use crate::trainjobs::numbers::{Spread, mega};

/// A table: one block for each of them, a line for a phase and one more for each further thing that was waited for; then
/// how many times more than ours upstream took.
pub fn text(rows: &[Row], disk: Disk) -> String {
    let disk = match disk {
        Disk::Synced => "etcd syncs every commit to disk",
        Disk::Unsynced => "etcd with --unsafe-no-fsync",
    };
    let count = rows.first().map_or(0, |row| row.jobs);
    let mut text = format!(
        "trainjobs on a real API server: {count} TrainJobs, sent over HTTPS, {IN_FLIGHT} at once; garbage collector, no JobSet controller; \
         {disk};\nload average of the machine {}\n\n",
        busy()
    );
    let _ = writeln!(
        text,
        "  {:<17} {:<9} {:>7} {:>8} {:>7} {:>9} {:>7}   {:<16} {:>8} {:>8} {:>8}",
        "", "phase", "s", "writes", "CPU s", "server s", "RSS MB", "seconds to", "p50", "p99", "max"
    );
    for row in rows {
        let _ = writeln!(text, "{}", lines(row));
    }
    text + &ratios(rows)
        + &rates(rows)
        + "\n  s: until the last TrainJob is as wanted. writes: for each TrainJob, those of the bench aside; in `expire` with those of the \
            garbage collector.\n  \
            CPU: of the controller until it is quiet; server: API server and etcd. Ours keeps a snapshot of the runtime for each \
            TrainJob, a ConfigMap\n  that this upstream does not have."
}

/// The lines of one row.
pub fn lines(row: &Row) -> String {
    let wall =
        row.wall.map_or_else(|| format!(">{}", PHASE_MAX.as_secs()), |it| format!("{:.2}", it.as_secs_f64()));
    let head = format!(
        "  {:<17} {:<9} {wall:>7} {:>8.2} {:>7.2} {:>9.2} {:>7.1}",
        row.who.name(),
        row.phase.name(),
        writes_each(row),
        row.cpu.as_secs_f64(),
        row.server_cpu.as_secs_f64(),
        mega(row.resident),
    );
    let blank = " ".repeat(head.len());
    let line = |(at, (what, wait)): (usize, &(&str, Spread))| {
        let head = if at == 0 { &head } else { &blank };
        format!("{head}   {what:<16} {:>8.3} {:>8.3} {:>8.3}", wait.share(0.5), wait.share(0.99), wait.max())
    };
    row.waits.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn writes_each(row: &Row) -> f64 {
    row.writes as f64 / row.jobs as f64
}

/// How many times more than ours the others took, phase by phase.
fn ratios(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.who != Who::Operator) {
        let ours = rows.iter().find(|it| it.who == Who::Operator && it.phase == row.phase);
        let Some(ours) = ours else { continue };
        let times =
            |its: f64, ours: f64| if ours > 0.0 { format!("{:.1}x", its / ours) } else { "-".to_owned() };
        let p99 = |row: &Row| row.waits.first().map_or(0.0, |(_, wait)| wait.share(0.99));
        let wall = |row: &Row| row.wall.unwrap_or(PHASE_MAX).as_secs_f64();
        let _ = writeln!(
            text,
            "  {:<17} {:<9} than ours: s {}, p99 {}, writes {}, CPU {}, RSS {}",
            row.who.name(),
            row.phase.name(),
            times(wall(row), wall(ours)),
            times(p99(row), p99(ours)),
            times(writes_each(row), writes_each(ours)),
            times(row.cpu.as_secs_f64(), ours.cpu.as_secs_f64()),
            times(row.resident as f64, ours.resident as f64),
        );
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// How many went a minute when their time to live was over.
fn rates(rows: &[Row]) -> String {
    let Some((row, wait)) =
        rows.iter().find(|row| row.phase == Phase::Expire).and_then(|row| Some((row, &row.waits.first()?.1)))
    else {
        return String::new();
    };
    let rate = wait.count() as f64 * 60.0 / wait.max().max(1e-3);
    format!("\n  {}: {rate:.0} deletions a minute by their TTL, all due in the same second\n", row.who.name())
}

/// The same figures, one object for each row.
pub fn json(rows: &[Row]) -> String {
    let one = |row: &Row| {
        let waits = row.waits.iter().map(|(what, wait)| wait.tree().with(&["until"], *what));
        tree!({
            "controller": row.who.name(), "trainJobs": row.jobs as i64, "phase": row.phase.name(),
            "seconds": row.wall.map_or(Tree::Null, |it| tree!(it.as_secs_f64())),
            "waitSeconds": Tree::list(waits), "writesEach": writes_each(row),
            "cpuSeconds": row.cpu.as_secs_f64(), "serverCpuSeconds": row.server_cpu.as_secs_f64(),
            "residentBytes": row.resident as i64, "callsOfAll": row.count.tree_of(&WRITTEN),
        })
    };
    tree!({"load": busy(), "rows": Tree::list(rows.iter().map(one))}).to_string()
}
