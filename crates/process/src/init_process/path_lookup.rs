//! Resolves a program in `PATH` as a shell does, with an explanatory error.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Resolves `program`; a name with a slash is taken as a path.
///
/// # Errors
/// Reason and remedy.
pub fn find(program: &str, path: &str, dir: &Path) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the command is empty: give `command` a program to run".to_owned());
    }
    if program.contains('/') {
        return check(&dir.join(program)).map_err(|problem| format!("cannot run {program:?}: {problem}"));
    }
    let mut refused = None;
    for folder in path.split(':') {
        // An empty entry means the working directory.
        match check(&dir.join(folder).join(program)) {
            Ok(found) => return Ok(found),
            Err(problem) if problem.kind != Kind::NotExecutable => {}
            Err(problem) => {
                refused =
                    refused.or(Some(format!("{}: {problem}", dir.join(folder).join(program).display())));
            }
        }
    }
    Err(match refused {
        Some(refused) => format!("cannot run {program:?}: {refused}"),
        None => format!(
            "program {program:?} was not found on this machine (looked in PATH={path}): install it, give its full path, \
             or set PATH in the container's env; images are not pulled here"
        ),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Absent,
    /// A directory on the path is not accessible: the file may or may not exist.
    Inaccessible,
    NotExecutable,
}

struct LookupError {
    kind: Kind,
    says: String,
}

impl std::fmt::Display for LookupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.says)
    }
}

fn check(path: &Path) -> Result<PathBuf, LookupError> {
    let not_executable = |says: &str| LookupError { kind: Kind::NotExecutable, says: says.to_owned() };
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(not_executable("it is a folder")),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Err(not_executable("it is not executable: `chmod +x` it, or run it with its interpreter"))
        }
        Ok(_) => Ok(path.to_owned()),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory =>
        {
            Err(LookupError {
                kind: Kind::Absent,
                says: "there is no such file on this machine; images are not pulled here".to_owned(),
            })
        }
        Err(error) => Err(LookupError { kind: Kind::Inaccessible, says: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_first_executable_in_path_wins() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        put("a/tool", 0o644);
        put("b/tool", 0o755);
        fs::create_dir_all(dir.path().join("a/folder")).unwrap();
        let cases = [
            ("one that cannot run is passed over", "tool", "a:b", Ok("b/tool")),
            ("only one that cannot run", "tool", "a", Err("not executable")),
            ("nowhere", "nothing", "a:b", Err("was not found on this machine (looked in PATH=a:b)")),
            ("by its path", "./b/tool", "", Ok("./b/tool")),
            ("a folder", "a/folder", "", Err("it is a folder")),
            ("a path that leads nowhere", "c/tool", "", Err("no such file")),
            ("an empty entry is where it starts", "b/../b/tool", "", Ok("b/../b/tool")),
            ("nothing at all", "", "a", Err("empty")),
        ];
        for (says, program, path, want) in cases {
            match (find(program, path, dir.path()), want) {
                (Ok(found), Ok(want)) => assert_eq!(found, dir.path().join(want), "{says}"),
                (Err(problem), Err(want)) => assert!(problem.contains(want), "{says}: {problem}"),
                (got, want) => panic!("{says}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
