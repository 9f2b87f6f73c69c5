//! Pages of the documentation whose commands are run: each block of `sh` in them, in order.

use std::path::{Path, PathBuf};

const BEGIN: &str = "```sh";
const END: &str = "```";

/// A page of the documentation.
#[must_use]
pub fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// The commands of a page, block by block, as they stand there.
///
/// # Errors
/// It cannot be read, or a block has no end.
pub fn commands(page: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
    blocks(&text).map_err(|line| format!("{}:{line}: this block has no end", page.display()))
}

/// The blocks of a text; the line of one that has no end.
fn blocks(text: &str) -> Result<Vec<String>, usize> {
    let (mut all, mut lines) = (Vec::new(), text.lines().enumerate());
    while let Some((at, line)) = lines.next() {
        if line.trim() != BEGIN {
            continue;
        }
        let mut block = String::new();
        loop {
            let (_, line) = lines.next().ok_or(at + 1)?;
            if line.trim() == END {
                break;
            }
            block.push_str(line.trim());
            block.push('\n');
        }
        all.push(block);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_commands_are_found() {
        let text = "a\n```sh\none\ntwo\n```\n```text\nno\n```\n  ```sh\n  three\n  ```\n";
        assert_eq!(blocks(text), Ok(vec!["one\ntwo\n".to_owned(), "three\n".to_owned()]));
        assert_eq!(blocks("\n```sh\na\n"), Err(2));
    }
}
