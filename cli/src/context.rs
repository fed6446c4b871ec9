//! Sessions with every format registered.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};

/// A session that knows DataFusion's formats and Fermion.
pub(crate) fn session(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    datafusion_fermion::register(&ctx)?;
    datafusion_fermion::provider::register_inspection(&ctx);
    Ok(ctx)
}
