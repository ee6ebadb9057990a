/*
 * File system callbacks for tinygltf that read from a Millstream package or mounts, for tinygltf
 * 2.7 and later.
 *
 *     auto storage = millstream::storage::create().value();
 *     auto queue = millstream::queue::create(storage).value();
 *     auto package = millstream::source::package(storage, "level.mpak").value();
 *     millstream::tinygltf_files files(queue, package);
 *     tinygltf::TinyGLTF loader;
 *     loader.SetFsCallbacks(files.callbacks());
 *     loader.LoadBinaryFromFile(&model, &error, &warning, "models/ship.glb");
 *
 * The names of files are those of entries. `.` and `..` in them are resolved, as glTF has URIs such
 * as "../textures/hull.png"; a name that leads out of the package does not exist.
 *
 * Ownership: the object refers to the queue and the source, and loaders refer to the object: it
 * must outlive them, and queue and source must outlive it. A file is read as a whole, and copied
 * into the vector that tinygltf brings.
 * Threads: loaders on several threads may share an object. The callbacks wait for the read, so they
 * fail in callbacks of the library.
 *
 * Not supported: writing, which fails with a message; environment variables and `~` in names.
 */
#ifndef MILLSTREAM_TINYGLTF_HPP
#define MILLSTREAM_TINYGLTF_HPP

#include <millstream.hpp>

/* With TINYGLTF_IMPLEMENTATION it must not be included twice. */
#ifndef TINY_GLTF_H_
#include <tiny_gltf.h>
#endif

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace millstream {

/* Reads the files of tinygltf from a source. */
class tinygltf_files {
    const queue &reads;
    const source &files;

  public:
    tinygltf_files(const queue &by, const source &from) : reads(by), files(from) {}
    tinygltf_files(const tinygltf_files &) = delete;
    tinygltf_files &operator=(const tinygltf_files &) = delete;

    /* For `SetFsCallbacks`. */
    tinygltf::FsCallbacks callbacks() {
        tinygltf::FsCallbacks made = {};
        made.FileExists = exists;
        made.ExpandFilePath = expand;
        made.ReadWholeFile = read;
        made.WriteWholeFile = write;
        made.user_data = this;
        set_size(made, 0);
        return made;
    }

  private:
    /* Later versions than 2.7 have a callback for the size. */
    template <class Callbacks>
    static auto set_size(Callbacks &made, int) -> decltype(made.GetFileSizeInBytes, void()) {
        made.GetFileSizeInBytes = size;
    }
    template <class Callbacks> static void set_size(Callbacks &, long) {}

    /* The name without `.`, `..` and empty parts; empty if it leads out of the package. */
    static std::string resolved(const std::string &name) {
        std::string clean;
        for (std::size_t at = 0; at <= name.size();) {
            const std::size_t end = std::min(name.find('/', at), name.size());
            const std::string part = name.substr(at, end - at);
            at = end + 1;
            if (part == "..") {
                if (clean.empty())
                    return clean;
                const std::size_t slash = clean.rfind('/');
                clean.resize(slash == std::string::npos ? 0 : slash);
            } else if (!part.empty() && part != ".") {
                clean += clean.empty() ? part : "/" + part;
            }
        }
        return clean;
    }

    result<mst_entry> find(const std::string &name) const {
        return files.find(resolved(name).c_str());
    }

    static bool fail(std::string *error, const std::string &message) {
        if (error)
            *error += message + "\n";
        return false;
    }

    static bool exists(const std::string &name, void *user) {
        return bool(static_cast<const tinygltf_files *>(user)->find(name));
    }

    static std::string expand(const std::string &name, void *) { return name; }

    static bool size(std::size_t *bytes, std::string *error, const std::string &name, void *user) {
        auto entry = static_cast<const tinygltf_files *>(user)->find(name);
        if (!entry)
            return fail(error, name + ": " + entry.error().message);
        *bytes = std::size_t(entry->raw_size);
        return true;
    }

    static bool read(std::vector<unsigned char> *bytes, std::string *error, const std::string &name,
                     void *user) {
        const auto *self = static_cast<const tinygltf_files *>(user);
        auto entry = self->find(name);
        if (!entry)
            return fail(error, name + ": " + entry.error().message);
        /* As tinygltf's own callback does; its reader of GLB relies on it. */
        if (entry->raw_size == 0)
            return fail(error, name + ": the file is empty");
        /* Into memory of the library: that of the vector could go while the request goes on, where
         * the wait fails. */
        mst_read_desc desc = {};
        desc.source = self->files.get();
        desc.entry = *entry;
        auto ticket = self->reads.read(desc);
        if (!ticket)
            return fail(error, name + ": " + ticket.error().message);
        auto done = ticket->wait();
        if (!done)
            return fail(error, name + ": " + done.error().message);
        bytes->assign(done->buffer.begin(), done->buffer.end());
        return true;
    }

    static bool write(std::string *error, const std::string &name,
                      const std::vector<unsigned char> &, void *) {
        return fail(error, name + ": cannot be written, as packages are read-only");
    }
};

} // namespace millstream

#endif
