//! Queues in memory: what fifty thousand Workloads that wait cost, and what a controller of queues keeps of pods that are
//! none of its business.
//!
//! # Deliberately absent
//!
//! Servers and writes: a decision is counted when it is made.

mod pods;
mod scene;
mod table;

use muster_api::time::Time;
use muster_queue::engine::Engine;

use self::scene::Scene;
use crate::api::Options;
use crate::measure::{Moment, Took, resident};

pub use self::pods::row as pods_row;

/// More cycles than any scene needs to come to rest.
const CYCLES_MAX: usize = 1_000_000;
/// How often what is small is measured.
const TIMES: usize = 100;

/// What happened, how long it took, and how many heads were looked at.
struct Row {
    what: &'static str,
    /// What one of them took.
    each: Took,
    /// The longest of the cycles in it.
    longest_us: f64,
    cycles: usize,
    looks: u64,
    decisions: usize,
}

/// Runs it and prints it.
pub fn run(options: &Options) {
    for (at, scene) in Scene::all(options.quick).into_iter().enumerate() {
        eprintln!("  {}", scene.says);
        let mut figures = play(&scene);
        // Later runs reuse memory that the first one freed, which resident memory does not show.
        figures.bytes_each = figures.bytes_each.filter(|_| at == 0);
        println!(
            "{}",
            if options.json { table::json(&scene, &figures) } else { table::text(&scene, &figures) }
        );
    }
    pods::run(options);
}

/// What a scene came to.
struct Figures {
    /// Resident memory per Workload, where it can be attributed.
    bytes_each: Option<f64>,
    rows: Vec<Row>,
}

fn play(scene: &Scene) -> Figures {
    let mut engine = Engine::new(scene.settings());
    scene.feed_queues(&mut engine);
    let before = resident();
    let mut rows = Vec::new();
    let fed = Moment::now();
    let infos = scene.feed_workloads(&mut engine);
    rows.push(Row::plain("all are fed", fed.took()));
    let waiting = resident().saturating_sub(before);
    rows.push(rest("the first cycles, until nothing is left to decide", &mut engine, |_| {}));
    scene.confirm(&mut engine);
    rest("", &mut engine, |_| {});
    rows.push(many("one ends, and whoever can takes its place", &mut engine, |engine, n| {
        scene.end(engine, n);
    }));
    rows.push(many("one more comes", &mut engine, |engine, n| scene.arrive(engine, n)));
    rows.push(many("a quota of one queue grows", &mut engine, |engine, n| scene.grow(engine, n)));
    rows.push(many("a quota of one queue shrinks", &mut engine, |engine, n| scene.shrink(engine, n)));
    rows.push(rest("all is counted anew, from what was fed", &mut engine, |engine| {
        *engine = engine.rebuilt();
    }));
    rows.push(many("nothing happens", &mut engine, |_, _| {}));
    Figures { bytes_each: Some(waiting as f64 / infos as f64), rows }
}

impl Row {
    fn plain(what: &'static str, each: Took) -> Row {
        Row { what, each, longest_us: 0.0, cycles: 0, looks: 0, decisions: 0 }
    }
}

/// Something happens, and cycles follow until nothing is left to decide.
fn rest(what: &'static str, engine: &mut Engine, happens: impl FnOnce(&mut Engine)) -> Row {
    let began = Moment::now();
    happens(engine);
    let looks = engine.stats().nominations;
    let (mut cycles, mut decisions, mut longest_us) = (0, 0, 0.0_f64);
    for _ in 0..CYCLES_MAX {
        let cycle = Moment::now();
        decisions += engine.run_cycle(NOW).len();
        longest_us = longest_us.max(cycle.took().cpu.as_secs_f64() * 1e6);
        cycles += 1;
        if !engine.has_work() {
            break;
        }
    }
    let looks = engine.stats().nominations - looks;
    Row { what, each: began.took(), longest_us, cycles, looks, decisions }
}

/// The same many times; what one of them takes.
fn many(what: &'static str, engine: &mut Engine, happens: impl Fn(&mut Engine, usize)) -> Row {
    let mut all = Row::plain(what, Took { wall: Default::default(), cpu: Default::default() });
    for n in 0..TIMES {
        let one = rest(what, engine, |engine| happens(engine, n));
        all.each = Took { wall: all.each.wall + one.each.wall, cpu: all.each.cpu + one.each.cpu };
        all.longest_us = all.longest_us.max(one.longest_us);
        all.cycles += one.cycles;
        all.looks += one.looks;
        all.decisions += one.decisions;
    }
    let times = u32::try_from(TIMES).expect("a small number");
    all.each = Took { wall: all.each.wall / times, cpu: all.each.cpu / times };
    (all.cycles, all.decisions, all.looks) =
        (all.cycles / TIMES, all.decisions / TIMES, all.looks / u64::from(times));
    all
}

/// The only instant there is.
const NOW: Time = Time(1_000_000_000_000_000);
