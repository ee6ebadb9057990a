/*
 * A PhysicsFS archiver for Millstream packages: PHYSFS_mount() takes a .mpak like a .zip.
 * Described in millstream_physfs.c.
 */
#ifndef MILLSTREAM_PHYSFS_H
#define MILLSTREAM_PHYSFS_H

#include <millstream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Registers the archiver, after PHYSFS_init(). Returns 0 and sets PhysicsFS' error code if it
 * fails. `storage` reads all packages and must not be freed before PHYSFS_deinit() (or
 * PHYSFS_deregisterArchiver("mpak")) has returned.
 */
int millstream_physfs_register(mst_storage *storage);

#ifdef __cplusplus
}
#endif

#endif
