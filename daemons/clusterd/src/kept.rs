//! What a member that was killed leaves and the next one has no use for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ebb_host::clock::monotonic;

use crate::config::{ClusterConfig, How, KeepConfig, MemberConfig};
use crate::keepers::{forget, remember};
use crate::member::{Event, Record, What};

/// The namespaces of back-ends that a member keeps, which stay when it is killed.
pub(crate) struct Kept {
    /// Where they are written down.
    file: PathBuf,
    names: BTreeSet<String>,
    /// Those that any member keeps: members move back-ends to each other.
    known: BTreeSet<String>,
}

impl Kept {
    /// Of a member; `folder` is where it is written down.
    pub(crate) fn of(config: &ClusterConfig, member: &MemberConfig, folder: &Path) -> Kept {
        let names = |member: &MemberConfig| -> BTreeSet<String> {
            let namespaces = member.keep.iter().filter(|keep| keep.how == How::Namespace);
            namespaces.map(|keep| space_of(config, keep)).collect()
        };
        let file = format!("kept-{}-{}", config.cluster.name, member.name).replace('/', "_");
        let known = config.member.iter().flat_map(names).collect();
        Kept { file: folder.join(file), names: names(member), known }
    }

    /// Removes what the member kept when it was killed and nobody is to keep now.
    pub(crate) fn renew(&self, sides: usize, record: &Record) -> Result<()> {
        let mut names = self.names.clone();
        for (member, gone) in forget(&self.file, &self.known, sides)? {
            let what = match gone {
                Ok(()) => What::Slept,
                Err(error) => {
                    names.insert(member.clone());
                    What::Failed(format!("{error:#}"))
                }
            };
            record.lock().expect("record").push(Event { at: monotonic(), member, what });
        }
        remember(&self.file, &names)
    }

    /// None is left any more.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(crate) fn forget(&self) -> Result<()> {
        remember(&self.file, &BTreeSet::new())
    }
}

/// The name of a back-end's namespace.
pub(crate) fn space_of(config: &ClusterConfig, keep: &KeepConfig) -> String {
    let name = || format!("ebb-{}-{}", config.cluster.name, keep.back_end);
    keep.namespace.clone().unwrap_or_else(name)
}
