// SPDX-License-Identifier: Apache-2.0
#include "db/db.h"
