//! `cargo xtask sim`: runs simulator scenarios with fault injection in release, one for each seed. `cargo xtask sim queues` runs
//! the queueing scenarios, whose invariants are checked after every step, and `cargo xtask sim trained-queues` those that queue
//! TrainJobs too.

use xtask::process;

/// The number of seeds without `--seeds`.
const SEEDS_DEFAULT: u64 = 1_000;

const USAGE: &str = "usage: cargo xtask sim [queues|trained-queues] [--seeds N] [--from N] [--only WORDS] | [queues|trained-queues] --seed N [--only WORDS] [-v]";

/// Argument, test that runs many seeds, test that runs one. The entry without an argument is the default and comes last.
const WORLDS: [(&str, &str, &str); 3] = [
    ("queues", "queues::seeds::whatever_happens_nobody_has_more_than_there_is", "queues::seeds::this_one"),
    (
        "trained-queues",
        "queues::seeds::whatever_happens_to_train_jobs_nobody_has_more_than_there_is",
        "queues::seeds::this_one_with_train_jobs",
    ),
    ("", "seeds::whatever_happens_all_comes_right_and_falls_quiet", "seeds::this_one"),
];

/// The seeds to run.
#[derive(Debug, PartialEq, Eq)]
enum SeedRange {
    /// Consecutive seeds.
    Many { count: u64, from: u64 },
    /// One seed; `verbose` prints every write and fault.
    One { seed: u64, verbose: bool },
}

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct SimArgs {
    seeds: SeedRange,
    /// Only scenarios whose name contains this text.
    only: Option<String>,
}

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let first = args.first().map(String::as_str).unwrap_or_default();
    let [named @ .., default] = WORLDS;
    let (args, (_, many, one)) = match named.into_iter().find(|(word, ..)| *word == first) {
        Some(named) => (&args[1..], named),
        None => (args, default),
    };
    let SimArgs { seeds, only } = parse(args)?;
    let test = if matches!(seeds, SeedRange::Many { .. }) { many } else { one };
    let mut command = process::cargo(["test", "--release", "--quiet", "--package", "muster-sim"]);
    command.args(["--test", "world", "--", "--exact", test, "--include-ignored", "--nocapture"]);
    if let Some(words) = only {
        command.env("MUSTER_SIM_ONLY", words);
    }
    match seeds {
        SeedRange::Many { count, from } => {
            command.env("MUSTER_SEEDS", count.to_string()).env("MUSTER_SEEDS_FROM", from.to_string())
        }
        SeedRange::One { seed, verbose } => {
            if verbose {
                command.env("MUSTER_SIM_STORY", "1");
            }
            command.env("MUSTER_SEED", seed.to_string())
        }
    };
    process::run(&mut command)
}

fn parse(args: &[String]) -> Result<SimArgs, String> {
    let (mut many, mut from, mut seed, mut verbose, mut only) = (None, None, None, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut word = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
        let number = |text: &String| text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}\n{USAGE}"));
        match arg.as_str() {
            "--seeds" => many = Some(number(word()?)?),
            "--from" => from = Some(number(word()?)?),
            "--seed" => seed = Some(number(word()?)?),
            "--only" => only = Some(word()?.clone()),
            "-v" => verbose = true,
            other => return Err(format!("{other}: unknown\n{USAGE}")),
        }
    }
    let seeds = match seed {
        Some(seed) if many.is_none() && from.is_none() => SeedRange::One { seed, verbose },
        None if !verbose && many != Some(0) => {
            SeedRange::Many { count: many.unwrap_or(SEEDS_DEFAULT), from: from.unwrap_or(0) }
        }
        _ => return Err(USAGE.to_owned()),
    };
    Ok(SimArgs { seeds, only })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libtest runs no test and succeeds if `--exact` matches none.
    #[test]
    fn the_tests_of_all_worlds_exist() {
        let directory = process::root().join("crates/sim/tests/world");
        for path in WORLDS.iter().flat_map(|(_, many, one)| [many, one]) {
            let (module, test) = path.rsplit_once("::").expect("a path of module and function");
            let file = directory.join(module.replace("::", "/")).with_extension("rs");
            let text = std::fs::read_to_string(&file).expect("the module has a file");
            assert!(text.contains(&format!("fn {test}()")), "{}: no test {test}", file.display());
        }
    }

    #[test]
    fn arguments_are_parsed() {
        let parse = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let many = |count, from| Ok(SimArgs { seeds: SeedRange::Many { count, from }, only: None });
        assert_eq!(parse(""), many(1_000, 0));
        assert_eq!(parse("--seeds 5"), many(5, 0));
        assert_eq!(parse("--from 1000 --seeds 500"), many(500, 1_000));
        let one = SeedRange::One { seed: 7, verbose: true };
        assert_eq!(parse("--seed 7 -v"), Ok(SimArgs { seeds: one, only: None }));
        let some = SeedRange::Many { count: 1_000, from: 0 };
        assert_eq!(parse("--only gangs"), Ok(SimArgs { seeds: some, only: Some("gangs".to_owned()) }));
        assert!(parse("--seeds").is_err_and(|why| why.starts_with("--seeds needs a value")));
        assert!(parse("--seed x").is_err_and(|why| why.starts_with("--seed x: ")));
        for invalid in ["-v", "--seeds 5 --seed 7", "--seed 7 --from 3", "--seeds 0", "--seeds 5 -v"] {
            assert_eq!(parse(invalid), Err(USAGE.to_owned()), "{invalid}");
        }
        assert!(parse("7").is_err_and(|why| why.starts_with("7: unknown")));
    }
}
