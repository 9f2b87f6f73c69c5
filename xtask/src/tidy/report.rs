//! The measures as a table with lists, and as JSON: both from the same values.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::measure::{Percentiles, SourcePlace, TableRow, TypeNames, homonyms, percent};

/// Everything that the task prints.
#[derive(Debug)]
pub struct TidyReport {
    /// One for each product crate.
    pub crates: Vec<TableRow>,
    /// All product crates together.
    pub product: TableRow,
    /// The packages of tests, benches and tasks together.
    pub tooling: TableRow,
    /// Type names of the workspace, those of private types among them.
    pub names: TypeNames,
    pub public_names: TypeNames,
    pub wire_literals: Vec<(String, SourcePlace)>,
    pub violations: Vec<String>,
}

const HEADINGS: [&str; 9] = [
    "",
    "code lines",
    "files p50 / p90 / max",
    "functions p50 / p90 / p99 / max",
    "docs /100",
    "inline /100",
    "people",
    "short docs",
    "Result<_, String>",
];

const LEGEND: &str = "Lengths are lines, tests left out. docs: documentation comments per 100 code lines; inline: lines of other comments per 100
code lines; people: comment lines that speak of people; short docs: documentation comments of three words or fewer.";

impl TidyReport {
    /// The table, and the lists below it.
    pub fn text(&self) -> String {
        let mut text = self.table();
        write!(
            text,
            "\n{LEGEND}\n\nType names: {}; public: {}.\n",
            share(&self.names),
            share(&self.public_names)
        )
        .expect("writing to memory");
        text += "\nPublic type names with more than one definition:\n\n";
        for (name, found) in homonyms(&self.public_names) {
            let found: Vec<String> = found.iter().map(place).collect();
            writeln!(text, "{:>4}  {name:<28} {}", found.len(), found.join(" ")).expect("writing to memory");
        }
        writeln!(text, "\nWire constants outside crates/api: {}\n", self.wire_literals.len())
            .expect("writing to memory");
        for (literal, at) in &self.wire_literals {
            writeln!(text, "      {literal:<44} {}", place(at)).expect("writing to memory");
        }
        text
    }

    fn table(&self) -> String {
        let rows = self.crates.iter().chain([&self.product, &self.tooling]).map(cells);
        let rows: Vec<_> = std::iter::once(HEADINGS.map(str::to_owned)).chain(rows).collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
        let line = |cells: &[String; HEADINGS.len()]| {
            let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = widths.map(|width| "-".repeat(width.max(3)));
        let rest: String = rows[1..].iter().map(line).collect();
        [line(&rows[0]), line(&rule), rest].concat()
    }

    /// The same for machines.
    pub fn json(&self) -> Value {
        let literals =
            self.wire_literals.iter().map(|(literal, at)| json!({"literal": literal, "place": place(at)}));
        json!({
            "crates": self.crates.iter().map(row_json).collect::<Vec<_>>(),
            "product": row_json(&self.product),
            "tooling": row_json(&self.tooling),
            "type_names": names_json(&self.names),
            "public_type_names": names_json(&self.public_names),
            "wire_literals": literals.collect::<Vec<_>>(),
            "violations": self.violations,
        })
    }
}

fn cells(row: &TableRow) -> [String; HEADINGS.len()] {
    let (files, functions) = (row.file_lines, row.function_lines);
    [
        row.name.clone(),
        row.code_lines.to_string(),
        format!("{} / {} / {}", files.p50, files.p90, files.max),
        format!("{} / {} / {} / {}", functions.p50, functions.p90, functions.p99, functions.max),
        format!("{:.1}", row.docs_per_100()),
        format!("{:.1}", row.inline_per_100()),
        format!("{:.1} %", row.people_percent()),
        format!("{:.1} %", row.short_docs_percent()),
        row.string_results.to_string(),
    ]
}

fn row_json(row: &TableRow) -> Value {
    let spread = |it: Percentiles| json!({"count": it.count, "p50": it.p50, "p90": it.p90, "p99": it.p99, "max": it.max});
    json!({
        "name": row.name,
        "code_lines": row.code_lines,
        "file_lines": spread(row.file_lines),
        "function_lines": spread(row.function_lines),
        "docs": row.comments.docs,
        "doc_lines": row.comments.doc_lines,
        "docs_per_100_code_lines": rounded(row.docs_per_100()),
        "short_docs": row.comments.short_docs,
        "short_docs_percent": rounded(row.short_docs_percent()),
        "inline_comment_lines": row.comments.inline_lines,
        "inline_comment_lines_per_100_code_lines": rounded(row.inline_per_100()),
        "people_lines": row.comments.people_lines,
        "people_percent": rounded(row.people_percent()),
        "string_results": row.string_results,
    })
}

fn names_json(names: &TypeNames) -> Value {
    let found = homonyms(names);
    let each = found
        .iter()
        .map(|(name, it)| json!({"name": name, "places": it.iter().map(place).collect::<Vec<_>>()}));
    let shared = rounded(percent(found.len(), names.len()));
    json!({"distinct": names.len(), "shared_percent": shared, "shared": each.collect::<Vec<_>>()})
}

fn share(names: &TypeNames) -> String {
    let shared = homonyms(names).len();
    let percent = percent(shared, names.len());
    format!("{} distinct, {shared} of them ({percent:.1} %) stand for more than one type", names.len())
}

fn place(at: &SourcePlace) -> String {
    format!("{}:{}", at.path, at.line)
}

/// Two decimals.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> TidyReport {
        let row = |name: &str| TableRow {
            name: name.to_owned(),
            code_lines: 1000,
            string_results: 7,
            ..TableRow::default()
        };
        let at = |package: &str, line| SourcePlace {
            package: package.to_owned(),
            path: format!("crates/{package}/src/lib.rs"),
            line,
        };
        let names = TypeNames::from([
            ("Told".to_owned(), vec![at("queue", 3), at("store", 9)]),
            ("Once".to_owned(), vec![at("queue", 5)]),
        ]);
        TidyReport {
            crates: vec![row("queue")],
            product: row("all crates"),
            tooling: row("the rest"),
            public_names: names.clone(),
            names,
            wire_literals: vec![("muster.dev/simulated".to_owned(), at("queue", 1))],
            violations: vec!["why".to_owned()],
        }
    }

    #[test]
    fn the_text_has_a_row_for_each_crate_and_a_line_for_each_homonym() {
        let text = report().text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("|            | code lines | files p50 / p90 / max |"), "{}", lines[0]);
        assert!(lines[2].starts_with("| queue      | 1000       | 0 / 0 / 0 "), "{}", lines[2]);
        assert!(text.contains("2 distinct, 1 of them (50.0 %) stand for more than one type"), "{text}");
        let homonym = lines.iter().find(|it| it.contains("Told")).expect("a line for the homonym");
        assert!(homonym.trim().starts_with("2  Told"), "{homonym}");
        assert!(homonym.ends_with("crates/queue/src/lib.rs:3 crates/store/src/lib.rs:9"), "{homonym}");
        assert!(!text.contains("Once"), "{text}");
    }

    #[test]
    fn the_json_has_the_same_values() {
        let json = report().json();
        assert_eq!(json["crates"][0]["string_results"], 7);
        assert_eq!(json["public_type_names"]["shared_percent"], 50.0);
        assert_eq!(json["public_type_names"]["shared"][0]["name"], "Told");
        assert_eq!(json["wire_literals"][0]["place"], "crates/queue/src/lib.rs:1");
        assert_eq!(json["violations"][0], "why");
    }
}
