//! What a container sees of the file system: the machine's, with its own things at their places.
//!
//! The root is an empty folder in memory in which every entry of the machine's root is shown. A place that the machine
//! does not have is made without touching it: the folder above becomes one in memory too, with everything that is in it
//! shown inside ("opened up"), and the missing entry is added there.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::files;
use crate::launch::{Launch, Mount};
use crate::system::mounts;

/// A folder with more entries than this is not opened up: a mount each would take seconds.
const ENTRIES_MAX: usize = 4096;
/// Symbolic links followed on the way to one place.
const LINKS_MAX: usize = 40;

/// A view being built.
struct View {
    /// Where, as seen from the machine.
    root: PathBuf,
    /// What lies at which path inside; the deepest above a path is what that path is part of.
    ground: BTreeMap<PathBuf, Ground>,
}

/// What a folder of the view is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ground {
    /// A folder in memory: entries can be added.
    Memory,
    /// Something of the machine, at this path there: must not be touched.
    Machine(PathBuf),
    /// A volume that can be written to: gets missing folders itself, as with container engines.
    Volume,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Folder,
    File,
}

/// Builds the view of a run and makes it this process's own. What is not as it should be is added to `missing`.
///
/// # Errors
/// Which place could not be made, and what the system said.
pub fn enter(dir: &Path, launch: &Launch, missing: &mut Vec<String>) -> Result<(), String> {
    let said = |error: io::Error| format!("make a root for the container: {error}");
    // The table of mounts has no symbolic links in its paths.
    let root = fs::canonicalize(dir.join(files::ROOT)).map_err(said)?;
    let view = View::begin(root.clone()).map_err(said)?;
    view.furnish(dir, launch, missing)?;
    mounts::enter(&root).map_err(|error| format!("enter the container's root: {error}"))
}

impl View {
    fn begin(root: PathBuf) -> io::Result<View> {
        mounts::detach_from_machine()?;
        mounts::memory(&root, "mode=755,size=16m")?;
        mounts::keep_out_of_copies(&root)?;
        let mut view = View { root, ground: BTreeMap::new() };
        view.show_entries(Path::new("/"), Path::new("/"), |name, _| !matches!(name, "tmp" | "dev" | "run"))?;
        Ok(view)
    }

    fn furnish(mut self, dir: &Path, launch: &Launch, missing: &mut Vec<String>) -> Result<(), String> {
        let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        self.make_dev(launch, missing).map_err(said("make /dev for the container"))?;
        self.make_run().map_err(said("make /run for the container"))?;
        self.make(Path::new("/tmp"), Form::Folder).map_err(said("make /tmp for the container"))?;
        let mut places = BTreeMap::from([
            (self.at(Path::new("/proc")), true),
            (self.at(Path::new("/dev/shm")), true),
            (self.at(Path::new("/dev/pts")), true),
        ]);
        for mount in own_mounts(dir, launch).iter().chain(&launch.mounts) {
            places.insert(self.put(mount)?, !mount.read_only);
        }
        if let Some(start) = &launch.dir {
            self.place(start, Form::Folder).map_err(said("make the working directory"))?;
        }
        // Landlock lets everybody change modes, owners and times of what is theirs: the machine's things are not.
        let refused = mounts::make_all_read_only(&self.root, |at| may_write(&places, at))
            .map_err(said("make the machine's folders read-only"))?;
        missing.extend(refused.into_iter().map(|(at, error)| {
            let inside = at.strip_prefix(&self.root).unwrap_or(&at);
            format!("a read-only /{}: {error}", inside.display())
        }));
        Ok(())
    }

    /// `/dev` with what every program expects, processors for graphics and the like, and terminals and shared memory of
    /// its own; no disks, no consoles.
    fn make_dev(&mut self, launch: &Launch, missing: &mut Vec<String>) -> io::Result<()> {
        let dev = Path::new("/dev");
        self.make(dev, Form::Folder)?;
        self.show_entries(dev, dev, |name, kind| !kind.is_block_device() && is_for_all(name))?;
        self.make(Path::new("/dev/pts"), Form::Folder)?;
        match mounts::terminals(&self.at(Path::new("/dev/pts"))) {
            Ok(()) => symlink("pts/ptmx", self.at(Path::new("/dev/ptmx")))?,
            Err(error) => missing.push(format!("a /dev/pts of its own: {error}")),
        }
        self.make(Path::new("/dev/shm"), Form::Folder)?;
        let size = launch.limits.memory_bytes.map_or(String::new(), |bytes| format!(",size={bytes}"));
        mounts::memory(&self.at(Path::new("/dev/shm")), &format!("mode=1777{size}"))
    }

    /// `/run` without the machine's services, whose sockets lead out of the container. Links stay: some systems have
    /// their programs behind one.
    fn make_run(&mut self) -> io::Result<()> {
        let run = Path::new("/run");
        self.make(run, Form::Folder)?;
        if run.is_dir() {
            self.show_entries(run, run, |_, kind| kind.is_symlink())?;
        }
        // Names of the network are often looked up by a file in there.
        match fs::canonicalize("/etc/resolv.conf") {
            Ok(names) if names.starts_with(run) => {
                self.try_put(&Mount { source: names.clone(), target: names, read_only: true }).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Shows a mount at its place; where that is while the view is built.
    fn put(&mut self, mount: &Mount) -> Result<PathBuf, String> {
        self.try_put(mount).map_err(|error| {
            format!("mount {} at {}: {error}", mount.source.display(), mount.target.display())
        })
    }

    fn try_put(&mut self, mount: &Mount) -> io::Result<PathBuf> {
        let form = if fs::metadata(&mount.source)?.is_dir() { Form::Folder } else { Form::File };
        let place = self.place(&mount.target, form)?;
        let at = self.at(&place);
        mounts::show(&mount.source, &at)?;
        if mount.read_only {
            mounts::make_read_only(&at)?;
        }
        // What was there is hidden now.
        self.ground.retain(|path, _| !path.starts_with(&place));
        let ground = if mount.read_only { Ground::Machine(mount.source.clone()) } else { Ground::Volume };
        self.ground.insert(place, ground);
        Ok(at)
    }

    /// Finds or makes a place; its path inside, without symbolic links.
    fn place(&mut self, target: &Path, form: Form) -> io::Result<PathBuf> {
        let mut done = PathBuf::from("/");
        let mut left = words(target);
        let mut links = 0;
        while let Some(word) = left.pop_front() {
            if word == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&word);
            match fs::symlink_metadata(self.at(&next)) {
                Ok(found) if found.is_symlink() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(io::Error::other("too many symbolic links on the way"));
                    }
                    let to = fs::read_link(self.at(&next))?;
                    if to.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    for word in words(&to).into_iter().rev() {
                        left.push_front(word);
                    }
                }
                Ok(_) => done = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let last = left.is_empty();
                    self.open_up(&done)?;
                    self.make(&next, if last { form } else { Form::Folder })?;
                    done = next;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn make(&mut self, inside: &Path, form: Form) -> io::Result<()> {
        match form {
            Form::Folder => fs::create_dir(self.at(inside)),
            Form::File => File::create(self.at(inside)).map(drop),
        }
    }

    /// Sees to it that an entry can be added to a folder without touching the machine.
    fn open_up(&mut self, folder: &Path) -> io::Result<()> {
        let Some(from) = ground_of(&self.ground, folder) else { return Ok(()) };
        mounts::memory(&self.at(folder), "mode=755,size=16m")?;
        self.ground.retain(|path, _| !path.starts_with(folder));
        self.show_entries(&from, folder, |_, _| true)
    }

    /// Shows the entries of a folder of the machine in a folder in memory.
    fn show_entries(
        &mut self,
        from: &Path,
        to: &Path,
        wants: impl Fn(&str, &fs::FileType) -> bool,
    ) -> io::Result<()> {
        self.ground.insert(to.to_owned(), Ground::Memory);
        let mut count = 0;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if !wants(&name.to_string_lossy(), &kind) {
                continue;
            }
            count += 1;
            if count > ENTRIES_MAX {
                return Err(io::Error::other(format!(
                    "{} has more than {ENTRIES_MAX} entries",
                    from.display()
                )));
            }
            let inside = to.join(name);
            show_entry(&entry.path(), &self.at(&inside), kind)?;
            self.ground.insert(inside, Ground::Machine(entry.path()));
        }
        Ok(())
    }

    /// Where a path inside is while the view is built.
    fn at(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }
}

/// Where the machine has a folder of the view that must be opened up; `None` when entries can be added as it is.
fn ground_of(ground: &BTreeMap<PathBuf, Ground>, folder: &Path) -> Option<PathBuf> {
    let (above, ground) =
        folder.ancestors().find_map(|path| ground.get(path).map(|ground| (path, ground)))?;
    match ground {
        Ground::Memory | Ground::Volume => None,
        Ground::Machine(from) => Some(from.join(folder.strip_prefix(above).unwrap_or(Path::new("")))),
    }
}

fn show_entry(from: &Path, to: &Path, kind: fs::FileType) -> io::Result<()> {
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        File::create(to)?;
    }
    match mounts::show(from, to) {
        // What this user cannot even look at stays an empty place.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        // It went away meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What every container has of its own.
fn own_mounts(dir: &Path, launch: &Launch) -> Vec<Mount> {
    let own = |source: PathBuf, target: &Path, read_only: bool| Mount {
        source,
        target: target.to_owned(),
        read_only,
    };
    let mut all = vec![
        own(launch.hosts.clone(), Path::new("/etc/hosts"), true),
        own(dir.join(files::MESSAGE), &launch.message_path, false),
    ];
    if !launch.read_only_root {
        all.push(own(dir.join(files::TMP), Path::new("/tmp"), false));
    }
    all
}

/// Whether a mount stays writable: the deepest place at or above it decides.
fn may_write(places: &BTreeMap<PathBuf, bool>, at: &Path) -> bool {
    at.ancestors().find_map(|path| places.get(path)).copied().unwrap_or(false)
}

/// Devices that are for every program, and those that compute.
fn is_for_all(name: &str) -> bool {
    matches!(name, "null" | "zero" | "full" | "random" | "urandom" | "tty")
        || matches!(name, "fd" | "stdin" | "stdout" | "stderr")
        || matches!(name, "dri" | "kfd" | "infiniband")
        || name.starts_with("nvidia")
}

/// The names of a path, from the root on.
fn words(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|it| match it {
            Component::Normal(word) => Some(word.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_opened_up() {
        let ground = BTreeMap::from([
            (PathBuf::from("/"), Ground::Memory),
            (PathBuf::from("/run"), Ground::Machine("/run".into())),
            (PathBuf::from("/data"), Ground::Volume),
            (PathBuf::from("/run/model"), Ground::Machine("/srv/model".into())),
        ]);
        let cases = [
            ("the root is in memory", "/", None),
            ("so is what was made in it", "/new/deep", None),
            ("the machine's folder", "/run", Some("/run")),
            ("a folder in the machine's folder", "/run/lock/x", Some("/run/lock/x")),
            ("a volume takes folders itself", "/data/sub", None),
            ("a read-only volume does not", "/run/model/sub", Some("/srv/model/sub")),
        ];
        for (says, folder, want) in cases {
            assert_eq!(ground_of(&ground, Path::new(folder)), want.map(PathBuf::from), "{says}");
        }
    }

    #[test]
    fn devices() {
        let cases = [
            ("null", true),
            ("tty", true),
            ("nvidia0", true),
            ("dri", true),
            ("tty1", false),
            ("kmsg", false),
            ("fuse", false),
            ("vda", false),
        ];
        for (name, want) in cases {
            assert_eq!(is_for_all(name), want, "{name}");
        }
    }

    #[test]
    fn the_deepest_place_decides() {
        let places = [("/r/data", true), ("/r/data/model", false), ("/r/data/model/cache", true)]
            .map(|(at, may)| (PathBuf::from(at), may));
        let cases = [
            ("the machine's", "/r/etc", false),
            ("a volume", "/r/data", true),
            ("something mounted in it", "/r/data/disk", true),
            ("a read-only volume in a volume", "/r/data/model/disk", false),
            ("one in that", "/r/data/model/cache", true),
            ("a namesake", "/r/data2", false),
        ];
        for (says, at, want) in cases {
            assert_eq!(may_write(&places.clone().into(), Path::new(at)), want, "{says}");
        }
    }
}
