//! What may change accounting. Names only: numbers are given by `apply`.

use minicbor::{Decode, Encode};

use super::{
    association::Fairshare,
    limit::LimitEdit,
    qos::{PreemptMode, QosFlag},
    user::AdminLevel,
};

/// A value that may be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub enum Edit<T> {
    /// Stays as it is.
    #[n(0)]
    #[default]
    Keep,
    /// Away.
    #[n(1)]
    Clear,
    /// Set.
    #[n(2)]
    To(#[n(0)] T),
}

impl<T: Clone> Edit<T> {
    /// The new value.
    pub fn apply(&self, to: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *to = None,
            Self::To(value) => *to = Some(value.clone()),
        }
    }

    /// True if nothing changes.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

/// A change of a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub enum QosListChange {
    /// Stays.
    #[n(0)]
    #[default]
    Keep,
    /// These and no others; none means what the account above has.
    #[n(1)]
    Exactly(#[n(0)] Vec<String>),
    /// Some more, some less.
    #[n(2)]
    Differ {
        /// More.
        #[n(0)]
        add: Vec<String>,
        /// Less.
        #[n(1)]
        remove: Vec<String>,
    },
}

/// Changes of an association.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct RuleChange {
    /// Shares.
    #[n(0)]
    pub fairshare: Option<Fairshare>,
    /// Priority.
    #[cbor(n(1), default)]
    pub priority: Edit<u32>,
    /// Limits.
    #[cbor(n(2), default, skip_if = "Vec::is_empty")]
    pub limits: Vec<LimitEdit>,
    /// Qualities of service.
    #[cbor(n(3), default)]
    pub qos: QosListChange,
    /// Quality of service of jobs that name none.
    #[cbor(n(4), default)]
    pub default_qos: Edit<String>,
}

/// Changes of a quality of service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct QosChange {
    /// Description.
    #[n(0)]
    pub description: Option<String>,
    /// Priority.
    #[n(1)]
    pub priority: Option<u32>,
    /// Grace time, in seconds.
    #[n(2)]
    pub grace_s: Option<u32>,
    /// Those that give way.
    #[cbor(n(3), default)]
    pub preempt: QosListChange,
    /// How its jobs give way.
    #[n(4)]
    pub preempt_mode: Option<PreemptMode>,
    /// Time before which they don't, in seconds.
    #[cbor(n(5), default)]
    pub preempt_exempt_s: Edit<u32>,
    /// Flags instead of those that are set.
    #[n(6)]
    pub flags: Option<Vec<QosFlag>>,
    /// Flags to set.
    #[cbor(n(7), default, skip_if = "Vec::is_empty")]
    pub flags_add: Vec<QosFlag>,
    /// Flags to take away.
    #[cbor(n(8), default, skip_if = "Vec::is_empty")]
    pub flags_remove: Vec<QosFlag>,
    /// Usage factor, in millionths.
    #[n(9)]
    pub usage_factor_millionths: Option<u64>,
    /// Usage threshold, in millionths.
    #[cbor(n(10), default)]
    pub usage_threshold_millionths: Edit<u64>,
    /// Limits.
    #[cbor(n(11), default, skip_if = "Vec::is_empty")]
    pub limits: Vec<LimitEdit>,
}

/// Which association.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
pub struct Place {
    /// The account.
    #[n(0)]
    pub account: String,
    /// The user; the account itself if not given.
    #[n(1)]
    pub user: Option<String>,
    /// The partition.
    #[n(2)]
    pub partition: Option<String>,
}

/// One change. Several are done together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Change {
    /// The root account, its user and the first quality of service; nothing where they are there.
    #[n(0)]
    Found,
    /// A new account, with its association.
    #[n(1)]
    AddAccount {
        /// Its name.
        #[n(0)]
        name: String,
        /// Description.
        #[n(1)]
        description: String,
        /// Organisation.
        #[n(2)]
        organization: String,
        /// The account above; root if not given.
        #[n(3)]
        parent: Option<String>,
    },
    /// A new user, without any association yet.
    #[n(2)]
    AddUser {
        /// The name.
        #[n(0)]
        name: String,
        /// The number; the controller fills it in.
        #[n(1)]
        uid: Option<u32>,
    },
    /// A new association of a user. The user's first account becomes the default.
    #[n(3)]
    AddAssociation {
        /// Where.
        #[n(0)]
        place: Place,
    },
    /// A new quality of service.
    #[n(4)]
    AddQos {
        /// Its name.
        #[n(0)]
        name: String,
    },
    /// A user coordinates an account.
    #[n(5)]
    AddCoordinator {
        /// The account.
        #[n(0)]
        account: String,
        /// The user.
        #[n(1)]
        user: String,
    },
    /// A user no longer coordinates an account.
    #[n(6)]
    RemoveCoordinator {
        /// The account.
        #[n(0)]
        account: String,
        /// The user.
        #[n(1)]
        user: String,
    },
    /// Changes an association.
    #[n(7)]
    ChangeAssociation {
        /// Where.
        #[n(0)]
        place: Place,
        /// How.
        #[n(1)]
        change: Box<RuleChange>,
    },
    /// Changes an account.
    #[n(8)]
    ChangeAccount {
        /// Its name.
        #[n(0)]
        name: String,
        /// Description.
        #[n(1)]
        description: Option<String>,
        /// Organisation.
        #[n(2)]
        organization: Option<String>,
        /// The account above.
        #[n(3)]
        parent: Option<String>,
    },
    /// Changes a user.
    #[n(9)]
    ChangeUser {
        /// The name.
        #[n(0)]
        name: String,
        /// The number; the controller fills it in.
        #[n(1)]
        uid: Option<u32>,
        /// Account of jobs that name none.
        #[n(2)]
        default_account: Option<String>,
        /// Rights.
        #[n(3)]
        admin: Option<AdminLevel>,
        /// Workload key of jobs that name none.
        #[n(4)]
        default_wckey: Option<String>,
    },
    /// Changes a quality of service.
    #[n(10)]
    ChangeQos {
        /// Its name.
        #[n(0)]
        name: String,
        /// How.
        #[n(1)]
        change: Box<QosChange>,
    },
    /// An association of a user goes.
    #[n(11)]
    RemoveAssociation {
        /// Where.
        #[n(0)]
        place: Place,
    },
    /// A user goes, with all associations.
    #[n(12)]
    RemoveUser {
        /// The name.
        #[n(0)]
        name: String,
    },
    /// An account goes, with those below it and all associations.
    #[n(13)]
    RemoveAccount {
        /// Its name.
        #[n(0)]
        name: String,
    },
    /// A quality of service goes.
    #[n(14)]
    RemoveQos {
        /// Its name.
        #[n(0)]
        name: String,
    },
}
