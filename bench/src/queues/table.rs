//! Figures as a table, and for machines.

use muster_tree::{Tree, tree};

use super::scene::Scene;
use super::{Figures, Row};

pub fn text(scene: &Scene, figures: &Figures) -> String {
    let bytes = figures.bytes_each.map(|it| format!(", {it:.0} bytes each")).unwrap_or_default();
    let mut text =
        format!("queues: {} {} wait in {} queues{bytes}\n", scene.waiting, scene.says, scene.queues);
    text += "  what happens                                         CPU     clock  longest cycle  cycles  looks  decisions\n";
    for row in &figures.rows {
        text += &format!(
            "  {:<48} {:>7} {:>9} {:>14} {:>7} {:>6} {:>10}\n",
            row.what,
            span(row.each.cpu.as_secs_f64() * 1e6),
            span(row.each.wall.as_secs_f64() * 1e6),
            span(row.longest_us),
            row.cycles,
            row.looks,
            row.decisions
        );
    }
    text
}

pub fn json(scene: &Scene, figures: &Figures) -> String {
    let row = |row: &Row| {
        tree!({"what": row.what, "cpuMicros": row.each.cpu.as_secs_f64() * 1e6, "clockMicros": row.each.wall.as_secs_f64() * 1e6,
            "longestCycleMicros": row.longest_us, "cycles": count(row.cycles), "looks": row.looks.to_string(),
            "decisions": count(row.decisions)})
    };
    tree!({"scene": scene.says, "queues": count(scene.queues), "waiting": count(scene.waiting),
        "bytesEach": (figures.bytes_each.map_or(Tree::Null, Tree::from)), "rows": Tree::list(figures.rows.iter().map(row))})
    .to_json()
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn span(micros: f64) -> String {
    match micros {
        _ if micros >= 1e6 => format!("{:.2} s", micros / 1e6),
        _ if micros >= 1e3 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{micros:.0} us"),
    }
}
