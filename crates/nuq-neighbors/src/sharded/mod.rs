//! Rows in several shards: storage, exact search shard by shard, and the merge of the results.

mod held;
mod index;
mod merge;
mod rows;

pub use held::HeldShards;
pub use index::{AddTable, ShardSearch, ShardedIndex};
pub use merge::ShardMerge;
pub use rows::{Shard, ShardedRows};
