//! `cargo xtask sim`: plays scenarios of the simulated world under faults, each by its number, in release.
//! `cargo xtask sim queues` plays those of queues, whose laws are looked at after every step.

use crate::process;

/// How many seeds are played when nobody says.
const SEEDS: u64 = 1_000;

const USAGE: &str = "usage: cargo xtask sim [queues] [--seeds N] | [queues] --seed N [-v]";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// So many seeds, from 0 on.
    Many(u64),
    /// This one, perhaps with everything that happens.
    One { seed: u64, story: bool },
}

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let (queues, args) = match args.split_first() {
        Some((first, rest)) if first == "queues" => (true, rest),
        _ => (false, args),
    };
    let asked = parse(args)?;
    let test = match (&asked, queues) {
        (Asked::Many(_), false) => "seeds::whatever_happens_all_comes_right_and_falls_quiet",
        (Asked::Many(_), true) => "queues::seeds::whatever_happens_nobody_has_more_than_there_is",
        (Asked::One { .. }, false) => "seeds::this_one",
        (Asked::One { .. }, true) => "queues::seeds::this_one",
    };
    let mut command = process::cargo(["test", "--release", "--quiet", "--package", "muster-sim"]);
    command.args(["--test", "world", "--", "--exact", test, "--include-ignored", "--nocapture"]);
    match asked {
        Asked::Many(seeds) => command.env("MUSTER_SEEDS", seeds.to_string()),
        Asked::One { seed, story } => {
            if story {
                command.env("MUSTER_SIM_STORY", "1");
            }
            command.env("MUSTER_SEED", seed.to_string())
        }
    };
    process::run(&mut command)
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let (mut many, mut seed, mut story) = (None, None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number\n{USAGE}"))?;
            text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}\n{USAGE}"))
        };
        match arg.as_str() {
            "--seeds" => many = Some(number()?),
            "--seed" => seed = Some(number()?),
            "-v" => story = true,
            other => return Err(format!("{other}: unknown\n{USAGE}")),
        }
    }
    match seed {
        Some(seed) if many.is_none() => Ok(Asked::One { seed, story }),
        None if !story && many != Some(0) => Ok(Asked::Many(many.unwrap_or(SEEDS))),
        _ => Err(USAGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let parse = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse(""), Ok(Asked::Many(1_000)));
        assert_eq!(parse("--seeds 5"), Ok(Asked::Many(5)));
        assert_eq!(parse("--seed 7 -v"), Ok(Asked::One { seed: 7, story: true }));
        assert!(parse("--seeds").is_err_and(|why| why.starts_with("--seeds needs a number")));
        assert!(parse("--seed x").is_err_and(|why| why.starts_with("--seed x: ")));
        for odd in ["-v", "--seeds 5 --seed 7", "--seeds 0", "--seeds 5 -v"] {
            assert_eq!(parse(odd), Err(USAGE.to_owned()), "{odd}");
        }
        assert!(parse("7").is_err_and(|why| why.starts_with("7: unknown")));
    }
}
