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

/// Builds the view of a run and makes it this process's own.
///
/// # Errors
/// Which place could not be made, and what the system said.
pub fn enter(dir: &Path, launch: &Launch) -> Result<(), String> {
    let root = dir.join(files::ROOT);
    let view =
        View::begin(root.clone()).map_err(|error| format!("make a root for the container: {error}"))?;
    view.furnish(dir, launch)?;
    mounts::enter(&root).map_err(|error| format!("enter the container's root: {error}"))
}

impl View {
    fn begin(root: PathBuf) -> io::Result<View> {
        mounts::detach_from_machine()?;
        mounts::memory(&root, "mode=755,size=16m")?;
        mounts::keep_out_of_copies(&root)?;
        let mut view = View { root, ground: BTreeMap::new() };
        view.show_entries(Path::new("/"), Path::new("/"), |name, _| name != "tmp" && name != "dev")?;
        Ok(view)
    }

    fn furnish(mut self, dir: &Path, launch: &Launch) -> Result<(), String> {
        let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        self.make_dev(launch).map_err(said("make /dev for the container"))?;
        self.make(Path::new("/tmp"), Form::Folder).map_err(said("make /tmp for the container"))?;
        let own =
            |source: PathBuf, target: &Path| Mount { source, target: target.to_owned(), read_only: false };
        let mut all = vec![
            own(launch.hosts.clone(), Path::new("/etc/hosts")),
            own(dir.join(files::MESSAGE), &launch.message_path),
        ];
        if !launch.read_only_root {
            all.push(own(dir.join(files::TMP), Path::new("/tmp")));
        }
        all.extend_from_slice(&launch.mounts);
        let mut places = vec![self.at(Path::new("/dev/shm"))];
        for mount in &all {
            places.push(self.put(mount)?);
        }
        if let Some(start) = &launch.dir {
            self.place(start, Form::Folder).map_err(said("make the working directory"))?;
        }
        if launch.read_only_root {
            let keep = |at: &Path| places.iter().any(|place| at.starts_with(place));
            mounts::make_all_read_only(&self.root, keep).map_err(said("make the root read-only"))?;
        }
        Ok(())
    }

    /// `/dev` without disks and consoles, with shared memory of its own.
    fn make_dev(&mut self, launch: &Launch) -> io::Result<()> {
        self.make(Path::new("/dev"), Form::Folder)?;
        self.show_entries(Path::new("/dev"), Path::new("/dev"), |name, kind| {
            !kind.is_block_device() && !is_console(name) && name != "shm" && name != "mqueue"
        })?;
        self.make(Path::new("/dev/shm"), Form::Folder)?;
        let size = launch.limits.memory_bytes.map_or(String::new(), |bytes| format!(",size={bytes}"));
        mounts::memory(&self.at(Path::new("/dev/shm")), &format!("mode=1777{size}"))
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

/// Consoles and their memory: nothing for a container, and there are many.
fn is_console(name: &str) -> bool {
    let digits = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    name.strip_prefix("tty").is_some_and(|rest| digits(rest) || rest.starts_with('S'))
        || name.starts_with("vcs")
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
    fn consoles() {
        for (name, want) in
            [("tty1", true), ("ttyS0", true), ("tty", false), ("vcsa1", true), ("null", false)]
        {
            assert_eq!(is_console(name), want, "{name}");
        }
    }
}
