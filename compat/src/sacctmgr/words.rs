//! Command lines of `sacctmgr`: `verb entity name... key=value... where key=value... set key=value...`.

use super::Stop;

/// How a value is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `=`.
    Is,
    /// `+=`.
    Plus,
    /// `-=`.
    Minus,
}

/// One `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The key, in lower case; empty for a word without a sign.
    pub key: String,
    /// The sign.
    pub sign: Sign,
    /// The value, without the quotes around it.
    pub value: String,
    /// As it was written.
    pub text: String,
}

impl Word {
    /// Reads one.
    pub fn read(text: &str) -> Self {
        let unquoted = |value: &str| value.trim_matches(|c| c == '"' || c == '\'').to_owned();
        let Some((key, value)) = text.split_once('=') else {
            return Self { key: String::new(), sign: Sign::Is, value: unquoted(text), text: text.to_owned() };
        };
        let (key, sign) = match (key.strip_suffix('+'), key.strip_suffix('-')) {
            (Some(key), _) => (key, Sign::Plus),
            (_, Some(key)) => (key, Sign::Minus),
            _ => (key, Sign::Is),
        };
        Self { key: key.to_lowercase(), sign, value: unquoted(value), text: text.to_owned() }
    }

    /// The values of a list, in the order written, each once; lower case, as names are kept.
    pub fn names(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in self.value.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// True if the key is a beginning of `name`, of at least `least` letters.
    pub fn is(&self, name: &str, least: usize) -> bool {
        self.key.len() >= least.min(name.len()) && !self.key.is_empty() && name.starts_with(self.key.as_str())
    }
}

/// What a word names, read where no key says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entity {
    /// Accounts.
    Account,
    /// Associations.
    Association,
    /// The cluster.
    Cluster,
    /// The configuration.
    Configuration,
    /// Coordinators.
    Coordinator,
    /// Events of nodes.
    Event,
    /// Federations.
    Federation,
    /// Jobs.
    Job,
    /// Problems.
    Problem,
    /// Qualities of service.
    Qos,
    /// Shared licences.
    Resource,
    /// Reservations.
    Reservation,
    /// Jobs that accounting alone believes in.
    RunawayJobs,
    /// Statistics.
    Stats,
    /// Changes that were made.
    Transaction,
    /// Resources that are counted.
    Tres,
    /// Users.
    User,
    /// Workload keys.
    Wckey,
}

/// Names with the fewest letters that mean them; the first that fits is meant.
const ENTITIES: &[(&str, usize, Entity)] = &[
    ("accounts", 3, Entity::Account),
    ("associations", 2, Entity::Association),
    ("clusters", 2, Entity::Cluster),
    ("configuration", 3, Entity::Configuration),
    ("coordinators", 3, Entity::Coordinator),
    ("events", 1, Entity::Event),
    ("federations", 1, Entity::Federation),
    ("jobs", 1, Entity::Job),
    ("problems", 1, Entity::Problem),
    ("qos", 1, Entity::Qos),
    ("resources", 4, Entity::Resource),
    ("reservations", 4, Entity::Reservation),
    ("runawayjobs", 2, Entity::RunawayJobs),
    ("stats", 1, Entity::Stats),
    ("transactions", 1, Entity::Transaction),
    ("txns", 2, Entity::Transaction),
    ("tres", 2, Entity::Tres),
    ("users", 1, Entity::User),
    ("wckeys", 1, Entity::Wckey),
];

/// The entity that a word means.
pub fn entity(word: &str) -> Option<Entity> {
    let word = word.to_lowercase();
    let fits = |(name, least, _): &&(&str, usize, Entity)| {
        word.len() >= *least && (name.starts_with(word.as_str()) || format!("{name}s") == word)
    };
    ENTITIES.iter().find(|row| row.0 == word).or_else(|| ENTITIES.iter().find(fits)).map(|row| row.2)
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `add`, `create`.
    Add,
    /// `archive`.
    Archive,
    /// `clear`.
    Clear,
    /// `delete`, `remove`.
    Delete,
    /// `dump`.
    Dump,
    /// `help`.
    Help,
    /// `load`.
    Load,
    /// `modify`, `update`.
    Modify,
    /// `ping`.
    Ping,
    /// `reconfigure`, `shutdown`.
    Daemon,
    /// `show`, `list`.
    Show,
    /// `version`.
    Version,
}

const VERBS: &[(&str, usize, Verb)] = &[
    ("add", 3, Verb::Add),
    ("create", 3, Verb::Add),
    ("archive", 3, Verb::Archive),
    ("clear", 3, Verb::Clear),
    ("delete", 3, Verb::Delete),
    ("remove", 3, Verb::Delete),
    ("dump", 3, Verb::Dump),
    ("help", 1, Verb::Help),
    ("list", 3, Verb::Show),
    ("load", 3, Verb::Load),
    ("modify", 1, Verb::Modify),
    ("update", 1, Verb::Modify),
    ("ping", 3, Verb::Ping),
    ("reconfigure", 4, Verb::Daemon),
    ("shutdown", 4, Verb::Daemon),
    ("show", 3, Verb::Show),
    ("version", 1, Verb::Version),
];

/// The verb that a word means.
pub fn verb(word: &str) -> Option<Verb> {
    let word = word.to_lowercase();
    VERBS.iter().find(|(name, least, _)| word.len() >= *least && name.starts_with(word.as_str())).map(|row| row.2)
}

/// Words after the entity, by where they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clauses {
    /// Words before `where` and `set`, and after `where`.
    pub condition: Vec<Word>,
    /// Words after `set`.
    pub set: Vec<Word>,
    /// There is a `set`.
    pub has_set: bool,
}

/// Sorts words into clauses.
pub fn clauses(words: &[String]) -> Clauses {
    let mut all = Clauses::default();
    let mut in_set = false;
    for word in words {
        match word.to_lowercase().as_str() {
            "where" => in_set = false,
            "set" => (in_set, all.has_set) = (true, true),
            _ if in_set => all.set.push(Word::read(word)),
            _ => all.condition.push(Word::read(word)),
        }
    }
    all
}

/// A word that means nothing where it stands.
pub(crate) fn unknown_condition(word: &Word) -> Stop {
    Stop::out(format!(" Unknown condition: {}\n", word.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_entities_may_be_short() {
        for (word, want) in [
            ("add", Some(Verb::Add)),
            ("mod", Some(Verb::Modify)),
            ("List", Some(Verb::Show)),
            ("del", Some(Verb::Delete)),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(verb(word), want, "{word}");
        }
        for (word, want) in [
            ("assoc", Some(Entity::Association)),
            ("associations", Some(Entity::Association)),
            ("acct", None),
            ("account", Some(Entity::Account)),
            ("coord", Some(Entity::Coordinator)),
            ("conf", Some(Entity::Configuration)),
            ("u", Some(Entity::User)),
            ("tres", Some(Entity::Tres)),
            ("transaction", Some(Entity::Transaction)),
            ("res", None),
            ("reservation", Some(Entity::Reservation)),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(entity(word), want, "{word}");
        }
    }

    #[test]
    fn words_are_cut() {
        for (text, key, sign, value) in [
            ("a", "", Sign::Is, "a"),
            ("QOS+=x,y", "qos", Sign::Plus, "x,y"),
            ("qos-=x", "qos", Sign::Minus, "x"),
            ("Description='a b'", "description", Sign::Is, "a b"),
            ("grptres=cpu=4", "grptres", Sign::Is, "cpu=4"),
        ] {
            let word = Word::read(text);
            assert_eq!((word.key.as_str(), word.sign, word.value.as_str()), (key, sign, value), "{text}");
        }
    }
}
