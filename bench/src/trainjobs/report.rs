//! Lines for people as they come, or one object for machines at the end.

use muster_tree::{Tree, tree};

use crate::measure::busy;

/// What was found so far.
pub struct Report {
    json: bool,
    found: Vec<Tree>,
    wrong: Vec<String>,
}

impl Report {
    pub fn new(json: bool) -> Report {
        Report { json, found: Vec::new(), wrong: Vec::new() }
    }

    /// A line: figures on standard output, unless machines read that.
    pub fn say(&self, line: &str) {
        if self.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }

    /// Figures of a scene.
    pub fn keep(&mut self, scene: &str, figures: &Tree) {
        self.found.push(figures.with(&["scene"], scene));
    }

    /// Something that can be counted and has to hold; times are never among it.
    pub fn check(&mut self, holds: bool, what: &str) {
        if !holds {
            self.say(&format!("    WRONG: {what}"));
            self.wrong.push(what.to_owned());
        }
    }

    /// Prints the report; returns whether every limit held.
    pub fn end(self) -> bool {
        let holds = self.wrong.is_empty();
        if self.json {
            println!(
                "{}",
                tree!({"load": busy(), "scenes": Tree::list(self.found), "wrong": Tree::list(self.wrong)})
            );
        }
        holds
    }
}
