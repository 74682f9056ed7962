//! One file each; a new policy is a file and a line in [`named`].
