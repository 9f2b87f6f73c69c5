//! `cargo xtask sim`: plays scenarios of the simulated world under faults, each by its number, in release.
//! `cargo xtask sim queues` plays those of queues, whose laws are looked at after every step, and `cargo xtask sim trained-queues`
//! those in which TrainJobs are among what waits.

use xtask::process;

/// How many seeds are played when nobody says.
const SEEDS: u64 = 1_000;

const USAGE: &str = "usage: cargo xtask sim [queues|trained-queues] [--seeds N] [--from N] [--only WORDS] | [queues|trained-queues] --seed N [--only WORDS] [-v]";

/// Which worlds, by their word, with the tests that play many of them and one; those without a word come last.
const WORLDS: [(&str, &str, &str); 3] = [
    ("queues", "queues::seeds::whatever_happens_nobody_has_more_than_there_is", "queues::seeds::this_one"),
    (
        "trained-queues",
        "queues::seeds::whatever_happens_to_train_jobs_nobody_has_more_than_there_is",
        "queues::seeds::this_one_with_train_jobs",
    ),
    ("", "seeds::whatever_happens_all_comes_right_and_falls_quiet", "seeds::this_one"),
];

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Which {
    /// So many seeds, from this one on.
    Many { seeds: u64, from: u64 },
    /// This one, perhaps with everything that happens.
    One { seed: u64, story: bool },
}

/// Which seeds, of which scenarios: all, or those that say these words.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    which: Which,
    only: Option<String>,
}

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let first = args.first().map(String::as_str).unwrap_or_default();
    let [named @ .., plain] = WORLDS;
    let (args, (_, many, one)) = match named.into_iter().find(|(word, ..)| *word == first) {
        Some(named) => (&args[1..], named),
        None => (args, plain),
    };
    let Asked { which, only } = parse(args)?;
    let test = if matches!(which, Which::Many { .. }) { many } else { one };
    let mut command = process::cargo(["test", "--release", "--quiet", "--package", "muster-sim"]);
    command.args(["--test", "world", "--", "--exact", test, "--include-ignored", "--nocapture"]);
    if let Some(words) = only {
        command.env("MUSTER_SIM_ONLY", words);
    }
    match which {
        Which::Many { seeds, from } => {
            command.env("MUSTER_SEEDS", seeds.to_string()).env("MUSTER_SEEDS_FROM", from.to_string())
        }
        Which::One { seed, story } => {
            if story {
                command.env("MUSTER_SIM_STORY", "1");
            }
            command.env("MUSTER_SEED", seed.to_string())
        }
    };
    process::run(&mut command)
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let (mut many, mut from, mut seed, mut story, mut only) = (None, None, None, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut word = || args.next().ok_or_else(|| format!("{arg} needs to know which\n{USAGE}"));
        let number = |text: &String| text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}\n{USAGE}"));
        match arg.as_str() {
            "--seeds" => many = Some(number(word()?)?),
            "--from" => from = Some(number(word()?)?),
            "--seed" => seed = Some(number(word()?)?),
            "--only" => only = Some(word()?.clone()),
            "-v" => story = true,
            other => return Err(format!("{other}: unknown\n{USAGE}")),
        }
    }
    let which = match seed {
        Some(seed) if many.is_none() && from.is_none() => Which::One { seed, story },
        None if !story && many != Some(0) => {
            Which::Many { seeds: many.unwrap_or(SEEDS), from: from.unwrap_or(0) }
        }
        _ => return Err(USAGE.to_owned()),
    };
    Ok(Asked { which, only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let parse = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let many = |seeds, from| Ok(Asked { which: Which::Many { seeds, from }, only: None });
        assert_eq!(parse(""), many(1_000, 0));
        assert_eq!(parse("--seeds 5"), many(5, 0));
        assert_eq!(parse("--from 1000 --seeds 500"), many(500, 1_000));
        let one = Which::One { seed: 7, story: true };
        assert_eq!(parse("--seed 7 -v"), Ok(Asked { which: one, only: None }));
        let some = Which::Many { seeds: 1_000, from: 0 };
        assert_eq!(parse("--only gangs"), Ok(Asked { which: some, only: Some("gangs".to_owned()) }));
        assert!(parse("--seeds").is_err_and(|why| why.starts_with("--seeds needs to know which")));
        assert!(parse("--seed x").is_err_and(|why| why.starts_with("--seed x: ")));
        for odd in ["-v", "--seeds 5 --seed 7", "--seed 7 --from 3", "--seeds 0", "--seeds 5 -v"] {
            assert_eq!(parse(odd), Err(USAGE.to_owned()), "{odd}");
        }
        assert!(parse("7").is_err_and(|why| why.starts_with("7: unknown")));
    }
}
