//! Plays scenarios on simulated planes, under virtual time, and prints what went wrong and how long it took.
//!
//! `simulated [trains|queues|jobsets|gangs] [part of a scenario's name]`

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::time::Instant;

use muster_tests::simulated::cases;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let all = cases().expect("scenarios can be read");
    let is_dialect = |word: &&String| all.iter().any(|case| case.dialect == word.as_str());
    let dialect = words.iter().find(is_dialect);
    let name = words.iter().find(|word| !is_dialect(word));
    let is_chosen = |dialect_of: &str, name_of: &str| {
        dialect.is_none_or(|it| it == dialect_of) && name.is_none_or(|it| name_of.contains(it.as_str()))
    };
    let (mut count, mut good) = (0, 0);
    for case in all.iter().filter(|case| is_chosen(case.dialect, &case.name)) {
        let begun = Instant::now();
        let played = case.play();
        println!("{} {:.2} s: {}", case.dialect, begun.elapsed().as_secs_f64(), case.name);
        count += 1;
        match played {
            Ok(()) => good += 1,
            Err(why) => println!("  {why}\n"),
        }
    }
    println!("{good} of {count} as they should be");
}
