//! Warns if the program of `--ranks` is not visible inside pods.
//!
//! A pod with its own mount namespace has its own `/tmp` and `/run`. A virtual environment in there is hidden, and
//! another program of the same name further down `PATH` would run instead, or none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::run::ranks::{Ranks, mounted};

/// The host directories that a pod with namespaces does not share.
const OWN: [&str; 2] = ["/tmp", "/run"];

/// The warning, if the program is hidden.
#[must_use]
pub fn warning(ranks: &Ranks) -> Option<String> {
    let program = ranks.command.first()?;
    let path = ranks.extra_env.iter().rev().find(|it| it.name == "PATH").map(|it| it.value.as_str());
    let path =
        path.or_else(|| ranks.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str()));
    let found = found(program, path.unwrap_or_default(), &ranks.folder)?;
    let hidden = hidden(&found, ranks)?;
    let instead = match program.contains('/') {
        true => String::new(),
        false => format!("; another {program} of PATH runs instead, or none"),
    };
    Some(format!(
        "warning: {program} is {} here, and pods have a {hidden} of their own{instead}\n  \
         hint: `--mount {folder}:{folder}` shows it to the ranks, and `--isolation none` shows everything",
        found.display(),
        folder = environment(&found, hidden).display(),
    ))
}

/// The file that the user's shell would run.
fn found(program: &str, path: &str, folder: &Path) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(folder.join(program)).filter(runs);
    }
    path.split(':').filter(|it| !it.is_empty()).map(|it| folder.join(it).join(program)).find(runs)
}

/// The private directory of the pod that hides a file, unless a mount makes it visible.
fn hidden(file: &Path, ranks: &Ranks) -> Option<&'static str> {
    let own = OWN.into_iter().find(|own| file.starts_with(own))?;
    let shown = mounted(&ranks.folder, ranks.home.as_deref());
    let is_shown = shown.iter().any(|it| file.starts_with(it))
        || ranks.mounts.iter().any(|it| file.starts_with(&it.path));
    (!is_shown).then_some(own)
}

/// The directory to mount for a program: the parent of its `bin` directory, or the one that it is in.
fn environment<'a>(file: &'a Path, own: &str) -> &'a Path {
    let folder = file.parent().unwrap_or(file);
    let above = folder.parent().filter(|above| folder.ends_with("bin") && *above != Path::new(own));
    above.unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ranks::{EnvVariable, HostMount};

    #[test]
    fn a_program_of_an_environment_under_tmp_is_hidden() {
        let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let bin = folder.path().join("venv/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let file = bin.join("python");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let ranks = |program: &str, folder: &str| Ranks {
            count: 1,
            command: vec![program.to_owned()],
            folder: folder.into(),
            home: Some("/home/me".into()),
            env: vec![("PATH".to_owned(), path.clone())],
            extra_env: Vec::new(),
            mounts: Vec::new(),
        };
        let told = warning(&ranks("python", "/srv")).unwrap();
        let venv = folder.path().join("venv").display().to_string();
        assert!(told.contains(&format!("python is {venv}/bin/python here")), "{told}");
        assert!(told.contains(&format!("--mount {venv}:{venv}")), "{told}");
        assert!(warning(&ranks(&file.display().to_string(), "/srv")).is_some(), "by its path");
        assert_eq!(warning(&ranks("sh", "/srv")), None, "a program of the machine");
        assert_eq!(
            warning(&ranks("python", &folder.path().display().to_string())),
            None,
            "it is in the folder"
        );
        let mounts = vec![HostMount { host: venv.clone().into(), path: venv.into() }];
        assert_eq!(warning(&Ranks { mounts, ..ranks("python", "/srv") }), None, "it is mounted");
        let also = vec![EnvVariable { name: "PATH".to_owned(), value: "/usr/bin:/bin".to_owned() }];
        assert_eq!(
            warning(&Ranks { extra_env: also, ..ranks("python", "/srv") }),
            None,
            "another PATH was asked for"
        );
    }
}
