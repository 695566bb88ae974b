//! The two caches behind the first level, and which of them a line belongs to.

/// One of the two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The second level as it always was.
    Application,
    /// The OS cache.
    Os,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Application => Self::Os,
            Self::Os => Self::Application,
        }
    }
}

/// What a request says of itself when it leaves the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The supervisor bit at that time.
    pub supervisor: bool,
    /// The shared bit of its page.
    pub shared: bool,
}

impl Stamp {
    /// Where the line belongs: shared pages to the application cache.
    pub(crate) const fn home(self) -> Side {
        if self.supervisor && !self.shared { Side::Os } else { Side::Application }
    }
}
