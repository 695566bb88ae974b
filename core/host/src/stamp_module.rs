//! The module `quaver_stamp` (`kmod/`) on this host: whether a program can have its stamps, and what keeps it from them.

use super::root::HostRoot;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;

/// The version whose records this program reads, which `kmod/quaver_stamp.c` bears.
pub const VERSION: &str = "0.2.0";
const MODULE: &str = "sys/module/quaver_stamp";
const RAW_DEVICE: &str = "quaver_stamp";

/// What became of the wish for the module's stamps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StampModule {
    /// It is not loaded.
    #[default]
    Absent,
    /// It is loaded, and nobody reads it.
    Free,
    /// Some program reads it.
    Busy,
    /// Its device may not be opened.
    NotPermitted,
    /// It is of this version; none where it states none.
    OtherVersion(Option<String>),
    /// It is loaded without its device.
    NoDevice,
    /// Opening failed for another reason.
    Failed(String),
}

impl StampModule {
    /// What there is, without opening the device: that would hook the module into the kernel.
    pub fn read(root: &HostRoot) -> Self {
        match Self::of_our_version(root) {
            Err(other) => other,
            Ok(()) if !root.exists(&device(RAW_DEVICE)) => Self::NoDevice,
            // The kernel counts an open device as a use of its module.
            Ok(()) if root.value::<u64>(&format!("{MODULE}/refcnt")) != Some(0) => Self::Busy,
            Ok(()) if access(root.path(&device(RAW_DEVICE)), Access::READ_OK).is_err() => Self::NotPermitted,
            Ok(()) => Self::Free,
        }
    }

    /// Opens one of its devices, by name. The module stamps for as long as that is open.
    ///
    /// # Errors
    /// What it is in place of [`Self::Free`].
    pub fn open(root: &HostRoot, name: &str) -> Result<File, Self> {
        Self::of_our_version(root)?;
        File::open(root.path(&device(name))).map_err(|error| Self::refused(&error))
    }

    fn of_our_version(root: &HostRoot) -> Result<(), Self> {
        if !root.exists(MODULE) {
            return Err(Self::Absent);
        }
        match root.text(&format!("{MODULE}/version")) {
            Some(version) if version == VERSION => Ok(()),
            other => Err(Self::OtherVersion(other)),
        }
    }

    fn refused(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EBUSY) => Self::Busy,
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted,
            Some(libc::ENOENT) => Self::NoDevice,
            _ => Self::Failed(error.to_string()),
        }
    }

    /// Why its stamps cannot be had, with a remedy; none where they can, or where it was not loaded.
    pub fn why_not(&self) -> Option<String> {
        Some(match self {
            Self::Absent | Self::Free => return None,
            Self::Busy => "another program reads the module quaver_stamp; end that program \
                           (fuser -v /dev/quaver_stamp*)"
                .to_owned(),
            Self::NotPermitted => {
                "/dev/quaver_stamp may not be opened; run as root, with CAP_NET_RAW".to_owned()
            }
            Self::OtherVersion(found) => format!(
                "the module quaver_stamp is of {}, and {VERSION} is needed; unload it (rmmod quaver_stamp) and load the one of \
                 this release (kmod/README.md)",
                found
                    .as_ref()
                    .map_or_else(|| "no stated version".to_owned(), |found| format!("version {found}"))
            ),
            Self::NoDevice => {
                "the module quaver_stamp is loaded, and /dev/quaver_stamp is missing; mount devtmpfs at /dev"
                    .to_owned()
            }
            Self::Failed(error) => format!("opening /dev/quaver_stamp failed: {error}"),
        })
    }
}

fn device(name: &str) -> String {
    format!("dev/{name}")
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    fn loaded(version: &str, users: &str) -> FakeHost {
        let host = FakeHost::empty();
        host.files(&[
            ("sys/module/quaver_stamp/version", version),
            ("sys/module/quaver_stamp/refcnt", users),
            ("dev/quaver_stamp", "records"),
        ]);
        host
    }

    #[test]
    fn a_host_says_what_keeps_a_program_from_the_module() {
        let without_device = FakeHost::empty();
        without_device.file("sys/module/quaver_stamp/version", VERSION);
        let without_version = FakeHost::empty();
        without_version.file("sys/module/quaver_stamp/refcnt", "0");
        for (host, expected, word) in [
            (FakeHost::empty(), StampModule::Absent, None),
            (loaded(VERSION, "0\n"), StampModule::Free, None),
            (loaded(VERSION, "1\n"), StampModule::Busy, Some("another program")),
            (
                loaded("0.1.0", "0\n"),
                StampModule::OtherVersion(Some("0.1.0".to_owned())),
                Some("version 0.1.0"),
            ),
            (without_version, StampModule::OtherVersion(None), Some("no stated version")),
            (without_device, StampModule::NoDevice, Some("is missing")),
        ] {
            let found = StampModule::read(&host.root());
            assert_eq!(found, expected);
            let why = found.why_not();
            assert_eq!(why.is_some(), word.is_some(), "{why:?}");
            assert!(word.is_none_or(|word| why.as_ref().is_some_and(|why| why.contains(word))), "{why:?}");
        }
    }

    #[test]
    fn only_the_device_of_our_version_is_opened() {
        use std::io::Read;
        let open = |host: &FakeHost| StampModule::open(&host.root(), RAW_DEVICE);
        let mut text = String::new();
        open(&loaded(VERSION, "0")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "records\n");
        assert_eq!(open(&FakeHost::empty()).unwrap_err(), StampModule::Absent);
        let other = StampModule::OtherVersion(Some("9".to_owned()));
        assert_eq!(open(&loaded("9", "0")).unwrap_err(), other);
        assert_eq!(
            StampModule::open(&loaded(VERSION, "0").root(), "other").unwrap_err(),
            StampModule::NoDevice
        );
    }

    #[test]
    fn each_refusal_of_the_kernel_has_its_reason() {
        let of = |number| StampModule::refused(&io::Error::from_raw_os_error(number));
        assert_eq!(of(libc::EBUSY), StampModule::Busy);
        assert_eq!(
            [of(libc::EPERM), of(libc::EACCES)],
            [StampModule::NotPermitted, StampModule::NotPermitted]
        );
        assert_eq!(of(libc::ENOENT), StampModule::NoDevice);
        assert!(of(libc::ENOMEM).why_not().unwrap().contains("Cannot allocate memory"));
    }

    #[test]
    fn the_module_and_its_package_bear_the_version_that_is_read() {
        let kmod = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod");
        let text = |name: &str| std::fs::read_to_string(kmod.join(name)).unwrap();
        assert!(text("quaver_stamp.c").contains(&format!("MODULE_VERSION(\"{VERSION}\")")));
        assert!(text("dkms.conf").contains(&format!("PACKAGE_VERSION=\"{VERSION}\"")));
        assert!(text("README.md").contains(&format!("quaver-stamp/{VERSION}")));
    }
}
