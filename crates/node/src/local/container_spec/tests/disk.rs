//! Tests of volumes on a real disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::super::{HostKind, ProjectedFile, Volume, set_up_volume};

fn file(path: &str, text: &str) -> ProjectedFile {
    ProjectedFile { path: path.to_owned(), bytes: text.into(), mode: 0o644, user: None }
}

fn files(folder: &Path, files: Vec<ProjectedFile>) -> Volume {
    Volume::Files { folder: folder.to_owned(), files, group: None }
}

/// All files visible to a container.
fn seen(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((at, name)) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let own = entry.file_name().into_string().unwrap();
            if own.starts_with("..") {
                continue;
            }
            let name = if name.is_empty() { own } else { format!("{name}/{own}") };
            if entry.path().is_dir() {
                open.push((entry.path(), name));
            } else {
                found.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever was there before, only the requested files and one generation remain.
    #[test]
    fn set_up_files_are_visible(rounds in prop::collection::vec(prop::collection::btree_map("[ab](/[cd])?", "[xyz]{0,3}", 0..4), 1..6)) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("v");
        for round in rounds {
            // A name cannot be both a file and a directory.
            let wanted: BTreeMap<String, String> = round.iter()
                .filter(|(path, _)| !round.keys().any(|other| other.starts_with(&format!("{path}/"))))
                .map(|(path, text)| (path.clone(), text.clone())).collect();
            let volume = files(&folder, wanted.iter().map(|(path, text)| file(path, text)).collect());
            prop_assert_eq!(set_up_volume(&volume), Ok(()));
            prop_assert_eq!(seen(&folder), wanted);
            let generations = fs::read_dir(&folder).unwrap().flatten()
                .filter(|it| it.file_name().to_string_lossy().starts_with("..v")).count();
            prop_assert_eq!(generations, 1);
        }
    }
}

#[test]
fn unchanged_files_are_not_rewritten() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("v");
    let now = || fs::read_link(folder.join("..data")).unwrap().display().to_string();
    for (says, text, mode, want) in [
        ("new", "1", 0o644, "..v1"),
        ("the same", "1", 0o644, "..v1"),
        ("other words", "2", 0o644, "..v2"),
        ("another mode", "2", 0o600, "..v3"),
    ] {
        let volume = files(&folder, vec![ProjectedFile { mode, ..file("a/b", text) }]);
        set_up_volume(&volume).unwrap();
        assert_eq!(now(), want, "{says}");
    }
    assert_eq!((mode(&folder.join("a/b")), mode(&folder.join("a"))), (0o600, 0o755));
}

#[test]
fn partial_generations_are_not_used() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("v");
    set_up_volume(&files(&folder, vec![file("a", "1")])).unwrap();
    fs::create_dir(folder.join("..v2")).unwrap();
    fs::write(folder.join("..v2/b"), "half").unwrap();
    std::os::unix::fs::symlink("..v2", folder.join("..data.next")).unwrap();
    set_up_volume(&files(&folder, vec![file("a", "2")])).unwrap();
    assert_eq!(seen(&folder), BTreeMap::from([("a".to_owned(), "2".to_owned())]));
    assert!(!folder.join("..v2/b").exists() && !folder.join("..data.next").exists());
    let scratch =
        Volume::Scratch { folder: home.path().join("s"), group: None, memory: false, limit_bytes: None };
    fs::create_dir_all(home.path().join("..s/half")).unwrap();
    set_up_volume(&scratch).unwrap();
    assert_eq!(fs::read_dir(home.path().join("s")).unwrap().count(), 0);
}

#[test]
fn readers_never_see_a_partial_update() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("v");
    let pair = |text: &str| files(&folder, vec![file("a", text), file("b", text)]);
    set_up_volume(&pair("0")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut whole = 0;
            while !over.load(Ordering::Relaxed) || whole == 0 {
                let data = folder.join(fs::read_link(folder.join("..data")).unwrap());
                // A generation directory may be removed while it is read, but only as a whole.
                if let (Ok(a), Ok(b)) = (fs::read(data.join("a")), fs::read(data.join("b"))) {
                    assert_eq!(a, b);
                    whole += 1;
                }
                assert!(fs::symlink_metadata(folder.join("a")).is_ok(), "a name never goes");
            }
        });
        for round in 1..200 {
            set_up_volume(&pair(&round.to_string())).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn an_empty_dir_is_world_writable_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("pods/u/volumes/s");
    let volume = Volume::Scratch { folder: folder.clone(), group: None, memory: false, limit_bytes: None };
    set_up_volume(&volume).unwrap();
    assert_eq!(mode(&folder), 0o777);
    fs::write(folder.join("mine"), "x").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    set_up_volume(&volume).unwrap();
    assert_eq!((mode(&folder), folder.join("mine").exists()), (0o700, true));
}

#[test]
fn fs_group_can_read_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("v");
    let own = folder.parent().unwrap().metadata().map(|it| std::os::unix::fs::MetadataExt::gid(&it)).unwrap();
    let private = ProjectedFile { mode: 0o600, ..file("a", "1") };
    set_up_volume(&Volume::Files { folder: folder.clone(), files: vec![private], group: Some(own) }).unwrap();
    assert_eq!((mode(&folder.join("a")), mode(&folder)), (0o640, 0o2755));
}

#[test]
fn host_path_types() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("file"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let check = |name: &str, kind| set_up_volume(&Volume::Host { path: at(name), kind });
    for (says, name, kind, want) in [
        ("a folder", "folder", HostKind::Directory, None),
        ("a folder for anything", "folder", HostKind::Any, None),
        ("a file for anything", "file", HostKind::Any, None),
        ("a folder that may be made, and is there", "folder", HostKind::DirectoryOrCreate, None),
        ("a folder that may be made", "new/deep", HostKind::DirectoryOrCreate, None),
        ("made when nothing is asked", "any/deep", HostKind::Any, None),
        ("a file that may be made", "new-file", HostKind::FileOrCreate, None),
        ("a file", "file", HostKind::File, None),
        ("a socket", "socket", HostKind::Socket, None),
        ("not a folder", "file", HostKind::Directory, Some(": {} is not a directory, it's a File")),
        (
            "not a folder either",
            "file",
            HostKind::DirectoryOrCreate,
            Some(": {} is not a directory, it's a File"),
        ),
        ("not a file", "folder", HostKind::File, Some(": {} is not a file, it's a Directory")),
        ("not a socket", "file", HostKind::Socket, Some(": {} is not a socket file, it's a File")),
        ("not a device", "file", HostKind::CharDevice, Some(": {} is not a character device, it's a File")),
        (
            "nothing",
            "nothing",
            HostKind::Directory,
            Some(", {} is not a directory, unable to determine its type: path \"{}\" does not exist"),
        ),
    ] {
        let path = at(name).display().to_string();
        let want = want.map(|text| format!("hostPath type check failed{}", text.replace("{}", &path)));
        assert_eq!(check(name, kind).err(), want, "{says}");
    }
    assert!(at("new/deep").is_dir() && at("any/deep").is_dir() && at("new-file").is_file());
    assert_eq!(fs::read(at("file")).unwrap(), b"x", "what is there stays");
    assert_eq!(set_up_volume(&Volume::Host { path: "/dev/null".into(), kind: HostKind::CharDevice }), Ok(()));
}

#[test]
fn write_errors_name_the_path() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "x").unwrap();
    let why = set_up_volume(&files(&home.path().join("file/v"), vec![file("a", "1")])).unwrap_err();
    assert!(why.contains("file/v: "), "{why}");
}
